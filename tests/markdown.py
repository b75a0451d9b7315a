"""Tables of pages in Markdown."""


def heading(dataset):
    name, _, rest = dataset.partition("-")
    spelled = {"pubmed": "PubMed", "pedalme": "PedalMe", "wikimath": "Wikipedia (reconstructed)"}.get(
        name, name.capitalize()
    )
    return f"{spelled}, {rest}" if rest else spelled


def as_table(rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def put_into_page(page, kind, table):
    """Return the page with another table between the marks of its kind."""
    begin, end = f"<!-- {kind}s -->", f"<!-- end of {kind}s -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"
