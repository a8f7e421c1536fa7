"""What does a shell run so that TAB asks gpuplan? One short script for each; `gpuplan completion SHELL` prints it."""

from __future__ import annotations

SHELLS = ("bash", "zsh", "fish", "powershell")

_BASH = r"""# gpuplan: completion for bash (3.2 and newer)
_gpuplan_completion() {
    local line kind current="${COMP_WORDS[COMP_CWORD]}" first=1
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$first" = 1 ]; then
            kind=$line first=0
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <(_GPUPLAN_COMPLETE=bash _GPUPLAN_LINE="${COMP_LINE:0:COMP_POINT}" _GPUPLAN_BREAKS="$COMP_WORDBREAKS" \
        "${1/#\~/$HOME}" 2>/dev/null)
    case $kind in
        files | folders)
            local flag=-f
            [ "$kind" = folders ] && flag=-d
            case $current in [=:@]) current= ;; esac
            while IFS= read -r line; do
                COMPREPLY+=("$line")
            done < <(compgen $flag -- "$current")
            type compopt >/dev/null 2>&1 && compopt -o filenames
            ;;
    esac
}
complete -F _gpuplan_completion gpuplan
"""

_ZSH = r"""#compdef gpuplan
# gpuplan: completion for zsh
_gpuplan_completion() {
    local -a answer found shown
    local line kind word about
    answer=("${(@f)$(_GPUPLAN_COMPLETE=zsh _GPUPLAN_WORDS="${(F)${(@Q)words[1,CURRENT]}}" ${(Q)words[1]} 2>/dev/null)}")
    kind=$answer[1]
    for line in "${(@)answer[2,-1]}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\t'*}
        about=
        [[ $line == *$'\t'* ]] && about=${line#*$'\t'}
        found+=("$word")
        shown+=("$word${about:+  -- $about}")
    done
    if [[ "${(j..)answer}" == *$'\t'* ]]; then
        compadd -l -d shown -a found
    else
        compadd -a found
    fi
    case $kind in
        files) _files ;;
        folders) _files -/ ;;
    esac
}
if ! (( $+functions[compdef] )); then
    autoload -Uz compinit && compinit -u
fi
compdef _gpuplan_completion gpuplan
"""

_FISH = r"""# gpuplan: completion for fish
function __gpuplan_completion
    set -l words (commandline -opc)
    set -l now (commandline -ct)
    set -lx _GPUPLAN_COMPLETE fish
    set -lx _GPUPLAN_WORDS "$words[1]"
    for word in $words[2..-1] "$now"
        set _GPUPLAN_WORDS "$_GPUPLAN_WORDS"\n"$word"
    end
    set -l answer ($words[1] 2>/dev/null)
    for line in $answer[2..-1]
        echo -- $line
    end
    switch "$answer[1]"
        case files
            __fish_complete_path "$now"
        case folders
            __fish_complete_directories "$now"
    end
end
complete -c gpuplan -f -a '(__gpuplan_completion)'
"""

_POWERSHELL = r"""# gpuplan: completion for PowerShell (5.1 and newer)
Register-ArgumentCompleter -Native -CommandName gpuplan -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object {
            if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
        })
    $env:_GPUPLAN_COMPLETE = 'powershell'
    $env:_GPUPLAN_WORDS = (@($words) + @($wordToComplete)) -join "`n"
    try {
        $answer = @(& $words[0] 2>$null)
    } finally {
        Remove-Item -Path 'Env:_GPUPLAN_COMPLETE', 'Env:_GPUPLAN_WORDS'
    }
    $answer | Select-Object -Skip 1 | ForEach-Object {
        $word, $about = $_ -split "`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
    }
}
"""

_TEXTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


def script(shell: str) -> str:
    """The script of a shell, one of `SHELLS`."""
    return _TEXTS[shell]
