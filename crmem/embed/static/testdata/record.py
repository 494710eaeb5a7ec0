"""Rewrites the tokens in tokens.tsv with the tokenizers library: record.py

The first column of tokens.tsv, a JSON string, is the text. The vocabulary is in
vocabulary.txt. Run it in this directory, after pip install tokenizers.
"""

import json

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

with open("vocabulary.txt", encoding="utf-8") as f:
    vocabulary = {word: i for i, word in enumerate(f.read().splitlines())}
tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
with open("tokens.tsv", encoding="utf-8") as f:
    texts = [line.split("\t")[0] for line in f]
with open("tokens.tsv", "w", encoding="utf-8") as f:
    for text in texts:
        tokens = tokenizer.encode(json.loads(text)).tokens
        print(text, " ".join(token for token in tokens if token != "[UNK]"), sep="\t", file=f)
