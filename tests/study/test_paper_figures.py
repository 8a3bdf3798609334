import shutil
import subprocess
from pathlib import Path

import pytest

WRAPPER = Path(__file__).parents[2] / "papers/ucb_bqrl/figures.tex"
SOURCE = r"""
\documentclass{article}
\usepackage{preamble}
\usepackage{not-a-package}
\newcommand{\QMDPDataDir}{.}
\newcommand{\assetregretplot}[1]{\begin{tikzpicture}\begin{axis}
\addplot table[x=episode, y expr={\thisrow{eps_q_mean}+1.96*\thisrow{eps_q_std}/sqrt(3)}, col sep=comma]{#1};
\end{axis}\end{tikzpicture}}
\pgfplotstableread[col sep=comma]{\QMDPDataDir/AssetSelling_tau0p2_UCB_BQRL_final_policy.csv}\dataTauLow
\newcommand{\policyplot}{\pgfplotstablegetelem{5}{[index]1}\of{\dataTauLow}\ifnum\pgfplotsretval=0 stop\else go\fi}
\begin{document}
Text that is not wanted \undefinedhere.
\begin{figure}\assetregretplot{\QMDPDataDir/AssetSelling_tau0p2_plot.csv}\end{figure}
\begin{figure}\undefinedhere\end{figure}
\begin{figure}\policyplot\end{figure}
\end{document}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("lualatex") is None, reason="LuaLaTeX is not installed")
def test_the_wrapper_compiles_a_source_of_the_papers_form_on_our_tables(made, tmp_path):
    (tmp_path / "source.tex").write_text(SOURCE)
    start = rf"\def\PaperSource{{source.tex}}\def\DataFolder{{{made}}}\input{{{WRAPPER}}}"
    command = ["lualatex", "-interaction=nonstopmode", "-halt-on-error", start]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "figures.pdf").stat().st_size > 5000
    assert "Output written on figures.pdf (2 pages" in done.stdout.replace("\n", "")
