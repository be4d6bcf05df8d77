"""LLVM: from module text to an object file.

Coroutines are split before anything moves code: registers are first promoted from their stack slots
(SROA), then the O0 pipeline splits, then O3 runs.  In one O3 run LLVM sinks arithmetic past the
suspend points and spills its operands, which makes the frames several times larger.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from zcuda_async.jit.host import initialise_llvm
from zcuda_async.jit.lower.group import Target

__all__ = ("assemble", "optimise")


def _machine(target: Target) -> llvm.TargetMachine:
    initialise_llvm()
    if target.triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple or llvm.get_default_triple()).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def _run(module: llvm.ModuleRef, machine: llvm.TargetMachine, level: int) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False  # lanes are vectors already
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _promote(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def optimise(text: str, target: Target, *, suspends: bool) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Parse and optimise a module."""
    machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.triple = target.triple or llvm.get_default_triple()
    module.verify()
    if suspends:
        _promote(module, machine)
        _run(module, machine, 0)
    _run(module, machine, 3)
    return module, machine


def assemble(text: str, target: Target, *, suspends: bool) -> bytes:
    """An ELF object file of the module."""
    module, machine = optimise(text, target, suspends=suspends)
    return bytes(machine.emit_object(module))
