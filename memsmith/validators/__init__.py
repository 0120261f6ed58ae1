"""Validators that come with the library, one module each.

Each is called directly (`check`) or awaited (`await validator(memory)`), keeps no state between
calls and may be shared by stores, tasks and threads. Your own needs no base class: anything that
is awaitable on a memory will do, see :class:`memsmith.protocols.Validator`.
"""
