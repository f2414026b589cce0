"""Write data/text/testdata/basic_tokenizer.json: texts, and the words that Hugging Face's BasicTokenizer makes of them.

Needs transformers before version 5 (pip install "transformers<5"); the Go test needs no Python. From the top of the
repository: python scripts/make_tokenizer_cases.py
"""

import json
import random

from transformers.models.bert.tokenization_bert import BasicTokenizer

LETTERS = list("abzABZ09 .,-'!$^_é") + ["É", "e\u0301", "ñ", "Ñ", "n\u0303", "ü", "Ü", "ß", "ẞ", "İ", "I\u0307", "ı", "Å", "\u212b",
    "犬", "が", "か\u3099", "ガ", "한", "й", "Й", "ά", "Ά", "Ω", "\u200d", "\u00a0", "\u3000", "\u2028", "\t", "\n", "\x00", "\x7f", "\ufffd",
    "—", "«", "¿", "ﬁ", "Ǆ", "\u0301", "ि", "क", "𝐀", "𩸽", "豈"]


def main():
    rng = random.Random(50)
    cases = []
    for i in range(240):
        lower, strip, chinese = rng.choice([True, False]), rng.choice([None, True, False]), rng.choice([True, True, False])
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 14)))
        words = BasicTokenizer(do_lower_case=lower, strip_accents=strip, tokenize_chinese_chars=chinese).tokenize(text)
        cases.append(dict(text=text, do_lower_case=lower, strip_accents=strip, tokenize_chinese_chars=chinese, words=words))
    with open("data/text/testdata/basic_tokenizer.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
