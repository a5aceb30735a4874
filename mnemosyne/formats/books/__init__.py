"""Books of lore: SillyTavern's world info, books of cards, lorebooks of Risu, Agnai, NovelAI, KoboldAI and AI Dungeon."""
