"""What tests of memsmith, and of backends for it, are made of. Needs the extra `testing`.

* :mod:`memsmith.testing.conformance`: the suite that every backend passes; subclass one class.
* :mod:`memsmith.testing.stateful`: machines that compare a store with the model, or with another store.
* :mod:`memsmith.testing.model`: the lifecycle in plain Python, which is the specification.
* :mod:`memsmith.testing.strategies`: hypothesis strategies for content, scopes, proposals.
* :mod:`memsmith.testing.clock`: a clock that moves when told.
"""
