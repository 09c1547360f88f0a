"""The loop that runs an agent, round by round: a question to the model, then the calls that it asks for.

- `lifecycle.py` starts a run, closes what it opened, and says how it ended.
- `rounds.py` is the loop itself.
- `question.py` asks the model, `calling.py` makes the calls of an answer, `phase.py` runs the hooks of plugins.
- `sound_answer.py` bounds what a model may answer, `foreign_code.py` how long code of others may take.
- `live_run.py` is what a run holds while it runs, `emitter.py` sends its events, `spending.py` watches its budget.
"""
