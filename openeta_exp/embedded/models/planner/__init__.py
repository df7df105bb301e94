"""`scripted-planner`: follows the skill and the grasp strategy in its context, step by step."""
