"""The offline planner: from a request in English to a blueprint, without a model.

It works in five steps, each a module or two of pure functions:

1. `clause` splits the request into clauses, each with a verb and its objects. Quoted text is never split.
2. `tool_profile`, `relevance` and `clause_match` find the tool for each clause: BM25 over the words of the tools,
   behind a gate on the verb and on the object. `classifier` makes tools, missing tools and questions of that.
3. `stated_value` reads the arguments that the request states outright, and `value_reading` makes values of them.
4. `data_flow` and `step_plan` connect the outputs of earlier steps with the inputs of later ones, `undo` finds what
   takes a step back, `draft` writes the blueprint, and `acceptance` its example.
5. `remedy` changes a draft as Ops asks, and `capability_draft` describes tools that are missing.

`model` is the planner that asks a model about what these steps leave open. `model_question` says what it is shown,
`model_contract` what it has to answer, and `model_reading` and `stated_reading` what counts of the answer.

Without it everything is deterministic: no clock, no disk, no randomness, and code-point order wherever there is no
other.
"""
