"""What mkdocs needs to render pages as GitHub does: its dialect of Markdown, and docs/README.md as the navigation."""

import os
import re
from xml.etree import ElementTree

import markdown
import pygments
from markdown_it import MarkdownIt
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def colour(code, language, attributes):
    return pygments.highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True)) if language else ""


def comment(self, tokens, i, options, env):
    """Leaves comments out; no other HTML is allowed in a page."""
    if not tokens[i].content.startswith("<!--"):
        raise ValueError(f"HTML in Markdown: {tokens[i].content}")
    return ""


class GitHub(markdown.Extension):
    """Parses pages by markdown-it: Python-Markdown reads lists, and bars in tables, differently from GitHub."""

    parser = MarkdownIt("gfm-like", {"highlight": colour, "xhtmlOut": True, "html": True})
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})  # "cpu.go" is no address
    parser.add_render_rule("html_block", comment)
    parser.add_render_rule("html_inline", comment)
    page, files = None, None  # of the page that is being rendered

    def extendMarkdown(self, md):
        md.preprocessors = markdown.util.Registry()
        md.treeprocessors.deregister("inline")
        md.parser = self

    def parseDocument(self, lines):
        tree = ElementTree.fromstring("<div>" + self.parser.render("\n".join(lines)) + "</div>")
        for a in tree.iter("a"):  # links to sources, which the site does not have, become plain text
            at = os.path.normpath(os.path.join(os.path.dirname(self.page.file.src_uri), a.get("href")))
            if self.files.get_file_from_path(at) is None and os.path.exists(os.path.join(ROOT, at)):
                a.tag = "span"
                del a.attrib["href"]
        return ElementTree.ElementTree(tree)


def on_config(config):
    """Adds the dialect, the project's address, and the navigation: docs/README.md has a group for each heading."""
    config.markdown_extensions.append(GitHub())
    with open(os.path.join(ROOT, "internal/system/build/build.go"), encoding="utf-8") as f:
        config.extra.update({"homepage": a for a in re.findall('^var Homepage = "(.+)"', f.read(), re.M)})
    config.nav = [{"Overview": "README.md"}, {"All pages": "docs/README.md"}]
    with open(os.path.join(ROOT, "docs/README.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                config.nav.append({line[3:].strip(): []})
            elif line.startswith("| ["):
                [group] = config.nav[-1].values()
                group += [os.path.normpath("docs/" + p) for p in re.findall(r"\]\(([^)]+\.md)\)", line.split("|")[1])]


def on_page_markdown(markdown, page, config, files):
    GitHub.page, GitHub.files = page, files
    page.meta["search"] = {"exclude": page.file.src_uri.startswith("docs/log/")}
