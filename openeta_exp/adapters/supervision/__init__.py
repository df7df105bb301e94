"""Who stands at the gate and answers questions: reviewers, guidance agents, people."""
