function __promwarp_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] --completion-bash $words[2..-1]
end
complete -c promwarp -a '(__promwarp_complete)'
