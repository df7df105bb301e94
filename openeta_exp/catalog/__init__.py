"""Compare two policies on an adapter and three YAML files so that the number means something.

    scenes.yaml  tasks.yaml  scenarios.yaml
      reading      records, with every mistake of the three files at once
      expansion    -> Manifest, and a table from each episode back to scene, task and scenario
      pool         one process per worker; each builds the adapter once and keeps it
        host/      what runs in that process: adapter, policy, recorder, perturbations, probes
      runner       EpisodeSpec + policy -> EpisodeOutcome
      checks       would the comparison mean anything? ok, suspect or invalid, with evidence

Everything in `host/` runs in any Python from 3.10 that has numpy: it imports neither pydantic
nor the rest of this package, so an adapter may live in an environment of its own.
"""
