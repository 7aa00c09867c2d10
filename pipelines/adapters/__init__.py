"""Our training loop over the published forks' own modules: hooks around them at run time, none of their code here."""
