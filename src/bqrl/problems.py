"""The named problems and their modules in `bqrl.envs`: the only place where a problem is entered.

It imports nothing, because `import bqrl` registers the problems with Gymnasium and must stay fast.
"""

PROBLEMS = {
    "AmericanPut": "american_put",
    "AssetSelling": "asset_selling",
    "Bandit": "bandit",
    "BettingGame": "betting_game",
    "Blackjack": "blackjack",
    "DeepSea": "deep_sea",
    "Gambler": "gambler",
    "Garnet": "garnet",
    "GuardedMaze": "guarded_maze",
    "ICUSepsis": "icu_sepsis",
    "Inventory": "inventory",
    "Liquidation": "liquidation",
    "MachineReplacement": "machine_replacement",
    "MeanReversion": "mean_reversion",
    "NoisyCliff": "noisy_cliff",
    "PerishableInventory": "perishable_inventory",
    "Portfolio": "portfolio",
    "QuantileDomain": "quantile_domain",
    "RiverSwim": "river_swim",
    "SafeOrRisky": "safe_or_risky",
    "SlipperyCliff": "slippery_cliff",
    "Staffing": "staffing",
    "TreatmentChoice": "treatment_choice",
}
