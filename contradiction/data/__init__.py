"""From raw files to data repos: CDConv and its checklists, corpora, NLI pairs, and chats that an owner has labelled."""
