"""A report in words: text for a terminal, tables for a notebook, in the language spoken."""

from collections.abc import Iterator
from html import escape

from normkit.examining import likeness
from normkit.examining.report import Finding, Norm, Report
from normkit.messages import N_, book, columns, current_language, known, say

# what was measured and what it means; what to do
SENTENCES = {
    "forward_pass_fails": (
        N_(
            "The model itself raises an exception at inference, so that only its modules were read."
        ),
        N_("Make it run on this batch first; the other findings often name the cause."),
    ),
    "running_statistics_not_finite": (
        N_(
            "{channels} of {of} channels have an infinite running mean or variance, or nan: one "
            "batch with an overflow is enough, and no later batch repairs it."
        ),
        N_("Reset the statistics (reset_running_stats) and compute them again on good batches."),
    ),
    "running_variance_negative": (
        N_(
            "A running variance is {least}. No average of variances is negative: was it exchanged "
            "with the mean when the weights were converted?"
        ),
        N_("Load γ, β, mean and variance again, in the order of the library that saved them."),
    ),
    "statistics_in_half_precision": (
        N_(
            "The running statistics have {bits} bits. Small increments are rounded away, so they "
            "stop before they arrive."
        ),
        N_("Keep the buffers in float32: use autocast, or convert all layers but these."),
    ),
    "late_running_statistics": (
        N_(
            "After {batches} batches with momentum {momentum}, {left} of the initial mean 0 and "
            "variance 1 is left: inference uses statistics that are not those of the data."
        ),
        N_("Train longer, raise the momentum, or recompute the statistics over the training data."),
    ),
    "momentum_of_another_library": (
        N_(
            "The momentum is {momentum}. In PyTorch it is the weight of the new batch: 0.99 of "
            "Keras is 0.01 here; with 1 only the last batch counts, with 0 none does."
        ),
        N_("Write 1 - m for a momentum m from Keras or TensorFlow."),
    ),
    "running_statistics_do_not_fit": (
        N_(
            "At inference, the median channel is {away} standard deviations from its running mean, "
            "and its variance is {times} times the running one."
        ),
        N_("Is the data prepared as in training? If it is, recompute the statistics on it."),
    ),
    "instance_norm_with_running_statistics": (
        N_(
            "With running statistics, an instance norm is a batch norm's fixed map at inference "
            "({channels} channels): the statistics of the instance are not used there."
        ),
        N_("Leave track_running_stats=False, unless exactly this is meant."),
    ),
    "shared_running_statistics": (
        N_(
            "One norm is called {calls} times in a step; its one set of running statistics mixes "
            "inputs whose means lie {apart} standard deviations apart, and whose variances differ "
            "by the factor {times}."
        ),
        N_("Where they differ, give each source a norm of its own, or join them into one batch."),
    ),
    "frozen_but_statistics_move": (
        N_(
            "γ and β are frozen ({parameters} numbers), yet in training mode the running "
            "statistics move, and with them the function."
        ),
        N_("Call eval() on the frozen norms, after every model.train()."),
    ),
    "updated_again_in_backward": (
        N_(
            "One step updates the running statistics {updates} times: a checkpoint runs the norm "
            "again in the backward pass."
        ),
        N_("Keep batch norms out of checkpoints, or use the momentum 1 - √(1 - m)."),
    ),
    "depends_on_the_batch_in_eval": (
        N_(
            "At inference, the output for an example changes with the other examples: by {change} "
            "of its scale."
        ),
        N_("Keep running statistics, or normalise over axes of one example only."),
    ),
    "rows_mix_outside_norms": (
        N_(
            "At inference, the answer for the first example changes by {change} of its scale with "
            "the others, and no norm is to blame."
        ),
        N_("Is axis {axis} really the batch? Look for a mean over it, or for capacity limits."),
    ),
    "padding_enters_the_statistics": (
        N_(
            "The padded values change the output elsewhere by {change} of its scale: the "
            "statistics include the padding."
        ),
        N_(
            "Take the statistics over the positions that the mask keeps, or use a norm of each "
            "token."
        ),
    ),
    "one_value_per_group": (
        N_(
            "The output ignores the input: each mean is taken over {values} value, so that only "
            "β is left."
        ),
        N_("Use fewer groups, or more features for each mean."),
    ),
    "two_values_per_group": (
        N_("{values} values share their statistics: the output is ±1 times γ, plus β."),
        N_("Use more values for each mean: fewer groups, or a larger batch."),
    ),
    "one_value_per_image": (
        N_(
            "A channel has one value for each of {examples} examples here: a batch of 1 raises an "
            "exception in training, and of 2 gives ±1."
        ),
        N_("Leave this norm out, or take group normalisation with several channels in a group."),
    ),
    "not_finite_on_constants": (
        N_("A constant input ({constant}) gives nan or infinity, forward or backward."),
        N_("Add ε to the variance, inside the root."),
    ),
    "overflows_in_half_precision": (
        N_(
            "In float16, values around {input} come out wrong: their squares exceed {most}, the "
            "largest number there is."
        ),
        N_("Compute the statistics in float32, and cast the result back."),
    ),
    "positions_share_statistics": (
        N_(
            "The mean runs over {positions} positions and their features: each token sees the "
            "others, also later ones, and the length is fixed."
        ),
        N_("Give the norm the number of features alone: LayerNorm(D)."),
    ),
    "channels_on_another_axis": (
        N_(
            "The norm takes {channels} positions for its channels: the layer before it has its "
            "features on another axis."
        ),
        N_("Transpose before and after the norm, or use one for this layout."),
    ),
    "dropout_before_batch_norm": (
        N_(
            "Dropout multiplies the variance that this norm stores by {times}; at inference there "
            "is no dropout, and the stored variance is too large."
        ),
        N_("Put dropout after the last norm."),
    ),
    "eps_dominates": (
        N_(
            "{below} of the variances lie below ε = {eps} (median {variance}): the norm divides by "
            "√ε, and hardly normalises."
        ),
        N_("Lower ε, or find out why the activations are so small."),
    ),
    "unbiased_variance": (
        N_(
            "The variance divides by n - 1: with {values} values the output is too small by "
            "{too_small}."
        ),
        N_("Use correction=0."),
    ),
    "eps_outside_the_root": (
        N_("ε = {eps} is added to the standard deviation instead of the variance."),
        N_("Divide by the root of variance + ε."),
    ),
    "one_added_to_a_weight_of_one": (
        N_("The weight is 1 and the norm multiplies by {gain}: it computes 1 + weight."),
        N_("Start the weight at 0; or, with converted weights, subtract 1 from each."),
    ),
    "norm_not_in_the_optimizer": (
        N_("{parameters} parameters want a gradient, but stand in no group of the optimizer."),
        N_("Add them to a group, or freeze them."),
    ),
    "weight_decay_on_norm": (
        N_("Weight decay {decay} pulls γ and β to 0. Many leave them out; the evidence is thin."),
        N_("Give norms and biases a group with weight_decay=0, if you follow common practice."),
    ),
    "several_eps": (
        N_("ε is {eps} here, and {usual} in most norms of this kind."),
        N_("If that is not meant, give all the same."),
    ),
    "bias_before_norm": (
        N_("This norm subtracts the bias before it ({parameters} numbers): it changes nothing."),
        N_("Write bias=False."),
    ),
    "norm_after_norm": (
        N_("This norm reads what another norm of {values} values made, and nothing else does."),
        N_("Remove one of the two."),
    ),
    "norm_after_norm_on_a_branch": (
        N_("This norm of {values} values reads a stream that was just normalised."),
        N_("Nothing need be done: only γ and β of the first one act here."),
    ),
    "no_final_norm_after_pre_norm": (
        N_(
            "{norms} norms stand before branches, and none after the last sum: the output has "
            "whatever scale the sums have reached."
        ),
        N_("Add a final norm, in nn.TransformerEncoder with norm=."),
    ),
    "stays_in_eval": (
        N_(
            "In training mode, this norm still uses its running statistics ({statistics} channels)."
        ),
        N_("Right for a frozen norm; else look for an eval() after train()."),
    ),
    "statistics_never_updated": (
        N_(
            "A training pass leaves the running statistics as they are (so far: {batches} batches)."
        ),
        N_("If inference uses them, find out why they are passed by."),
    ),
    "norm_never_called": (
        N_("No pass reaches this norm ({parameters} parameters)."),
        N_("Remove it, or call it."),
    ),
    "functional_norm": (
        N_("A norm is called as a function ({calls} times): tools that look for modules miss it."),
        N_("Nothing need be done."),
    ),
    "norm_inside_forward": (
        N_("A norm is written out in the forward of this module ({calls} times)."),
        N_("Make it a module of its own: then it can be measured here, and replaced."),
    ),
    "averaged_statistics_do_not_fit": (
        N_(
            "In the averaged model, the median channel is {away} standard deviations from its "
            "running mean, and its variance is {times} times the running one."
        ),
        N_("Recompute the running statistics of the averaged weights: update_bn of swa_utils."),
    ),
    "one_norm_under_two_names": (
        N_("One module stands at {names} places: they share γ and β."),
        N_("If that is not meant, make two."),
    ),
}
LEVELS = {"error": N_("error"), "warning": N_("warning"), "note": N_("note")}
COLUMNS = (
    N_("path"), N_("kind"), N_("axes"), N_("values"), N_("ε"), N_("momentum"), N_("place"),
    N_("calls"),
)  # fmt: skip
KINDS = {
    "batch": N_("batch"), "layer": N_("layer"), "group": N_("group"), "instance": N_("instance"),
    "rms": N_("RMS"), "affine": N_("affine"), "none": N_("none"), "pointwise": N_("pointwise"),
}  # fmt: skip
PLACES = {
    "pre": N_("pre"), "post": N_("post"), "branch end": N_("branch end"), "start": N_("start"),
    "final": N_("final"), "inside": N_("inside"),
}  # fmt: skip
LIKE = N_("The norm behaves like a known mistake. {message}")
COMPARE = N_("Compare it with the formula.")
NONE = N_("No errors, no warnings.")
NOISE = N_(
    "The batch looks like noise (mean 0, standard deviation 1), so what is said of statistics and "
    "of ε is about noise. Examine a real batch."
)
HEAD = N_("{model}: norms {norms}, parameters in them {parameters}, time {seconds} s")
SHOWN = 3  # paths of one finding
SHARES = {"left", "below", "too_small", "change"}  # told in per cent


def names() -> set[str]:
    """How findings are called."""
    return {*SENTENCES, *likeness.names()}


def sentences(finding: Finding) -> tuple[str, str]:
    """What a finding says, and what to do, in the language spoken."""
    if finding.name not in SENTENCES:
        known = " ".join(say(likeness.message(finding.name)).split())
        return say(LIKE, message=known), say(COMPARE)
    found, todo = SENTENCES[finding.name]
    fields = {name: _number(name, value) for name, value in finding.values.items()}
    fields.setdefault("axis", "0")
    return say(found, **fields), say(todo, **fields)


def _number(name: str, value: float) -> str:
    if name in SHARES and abs(value) < 100:
        return f"{100 * value:.3g} %"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def address(finding: Finding) -> str:
    """Where the book explains a finding."""
    page, _, label = finding.heading.partition("#")
    return f"{book()}{current_language()}/{page}.html" + (f"#{label}" if label else "")


def where(finding: Finding) -> str:
    """The first of its paths, and how many there are."""
    shown = ", ".join(path or say("the model") for path in finding.paths[:SHOWN])
    more = len(finding.paths)
    return f"{shown}{' …' if more > SHOWN else ''}" + (f" (×{more})" if more > 1 else "")


def text(report: Report) -> str:
    """The report for a terminal."""
    lines = [_head(report), ""]
    if report.is_noise:
        lines += [say(NOISE), ""]
    for finding in report.findings:
        lines += [*_lines(finding), ""]
    if report.level in {None, "note"}:
        lines += [say(NONE), ""]
    lines += _table([_cells(norm) for norm in report.norms])
    for each in report.skipped:
        lines.append(
            say("not measured: {what} ({why})", what=known(each.what), why=known(each.why))
        )
    return "\n".join(lines)


def _head(report: Report) -> str:
    return say(
        HEAD,
        model=report.model,
        norms=len(report.norms),
        parameters=report.parameters,
        seconds=f"{report.seconds:.1f}",
    )


def _lines(finding: Finding, indent: str = "") -> Iterator[str]:
    found, todo = sentences(finding)
    yield f"{indent}{say(LEVELS[finding.level])}  {finding.name}  {where(finding)}"
    yield f"{indent}    {found}"
    yield f"{indent}    → {todo}"
    yield f"{indent}    {say('Read on: {address}', address=address(finding))}"
    for effect in finding.consequences:
        so = say("and so: {name}", name=effect.name)
        yield f"{indent}    {so} ({say(LEVELS[effect.level])})  {where(effect)}"


def _cells(norm: Norm) -> tuple[str, ...]:
    return (
        norm.path or say("the model"),
        say(KINDS[norm.kind]) if norm.kind else "–",
        ", ".join(map(str, norm.axes)) if norm.axes else "–",
        str(norm.count or "–"),
        f"{norm.eps:.3g}" if norm.eps is not None else "–",
        f"{norm.momentum:.3g}" if norm.momentum is not None else "–",
        say(PLACES[norm.place]) if norm.place else "–",
        str(norm.calls),
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    table = [tuple(map(say, COLUMNS)), *rows]
    widths = [max(columns(row[i]) for row in table) for i in range(len(COLUMNS))]
    return [
        "  ".join(_padded(*each) for each in zip(r, widths, strict=True)).rstrip() for r in table
    ]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))


def html(report: Report) -> str:
    """The report for a notebook: tables, what is long folded; no script, no colour needed."""
    parts = [f"<p><strong>{escape(_head(report))}</strong></p>"]
    parts += [f"<p>{escape(say(NOISE))}</p>"] if report.is_noise else []
    parts += [f"<p>{escape(say(NONE))}</p>"] if report.level in {None, "note"} else []
    parts += [_folded(finding) for finding in report.findings]
    rows = [_cells(norm) for norm in report.norms]
    head = "".join(f'<th scope="col">{escape(say(name))}</th>' for name in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    parts.append(_details(escape(say("The {count} norms", count=len(rows))), table))
    for each in report.skipped:
        said = say("not measured: {what} ({why})", what=known(each.what), why=known(each.why))
        parts.append(f"<p>{escape(said)}</p>")
    return "".join(parts)


def _folded(finding: Finding) -> str:
    found, todo = sentences(finding)
    head = (
        f"<strong>{escape(say(LEVELS[finding.level]))}</strong> "
        f"<code>{escape(finding.name)}</code> {escape(where(finding))}"
    )
    read, so = say("Read on"), say("and so:")  # within an f-string, Babel would not find them
    link = f'<a href="{escape(address(finding))}">{escape(read)}</a>'
    effects = "".join(
        f"<li>{escape(say(LEVELS[e.level]))} <code>{escape(e.name)}</code> {escape(where(e))}</li>"
        for e in finding.consequences
    )
    more = f"<p>{escape(so)}</p><ul>{effects}</ul>" if effects else ""
    return _details(head, f"<p>{escape(found)}</p><p>→ {escape(todo)} {link}</p>{more}", True)


def _details(head: str, body: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{head}</summary>{body}</details>"
