"""Another size of everything builds the window anew: no key and nothing typed is lost by it."""

from tests.ui.project import write_images


def test_keys_that_come_together_all_count_and_what_was_typed_outlives_them(open_desk, tmp_path):
    lasting = {"constants": {"ui.shell.shell._MESSAGE_MS": 3_600_000}}
    desk, images = open_desk(**lasting), tmp_path / "mika"
    write_images(images)
    typed = {}

    def write(name, text):
        desk.replace(name, text)
        typed[name] = text

    desk.key("F9")
    write("trial prompt", "a red cat")
    write("trial count", "3")
    desk.key("shift+F7")
    desk.click("caption kind chat")
    write("caption prompt chat", "What is it?")
    write("caption images", str(images))
    desk.key("F11")
    desk.click("tool Resize")
    write("tool source", "/a/cat.safetensors")
    desk.click("tool Extract")
    write("tool target", "/a/difference.safetensors")
    desk.click("guide")
    write("start images", str(images))
    desk.wait(lambda: desk.widget("start next")["enabled"], "the images")
    desk.click("start next")
    write("start model", "/a/base.safetensors")

    # So many that some come while the window is being built.
    for key in (*["plus", "minus"] * 60, "0", *["plus"] * 3, *["minus"] * 2):
        desk._hands.press(f"ctrl+{key}")
    desk.wait_state(scale=1.1, resizing=False, focus="start model")
    assert "Size: 110%" in desk.state["message"]

    assert desk.widget("start model")["text"] == typed.pop("start model")
    desk.click("start back")
    desk.wait(lambda: desk.widget("start next")["enabled"], "the images, looked at again")
    assert desk.widget("start images")["text"] == typed.pop("start images")
    for key in ("F11", "F9", "shift+F7"):
        desk.key(key)
        if key == "F11":
            assert desk.widget("tool target")["text"] == typed.pop("tool target")
            desk.click("tool Resize")
        if key == "F9":  # at the page's end, the message does not cover the button
            desk.wheel(*(desk.widget("generate")[side] for side in "xy"), "5", 20)
            button, message = desk.widget("generate"), desk.widget("message bar")
            assert message["shown"] and button["y"] + button["height"] < message["y"] - 10
        shown = [name for name in typed if desk.widget(name).get("shown")]
        assert shown, key
        for name in shown:
            assert desk.widget(name)["text"] == typed.pop(name)
    assert typed == {}
