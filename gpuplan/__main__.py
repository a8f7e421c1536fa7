"""`python -m gpuplan`: the command line, as torchrun starts it."""

from gpuplan.cli.main import main

if __name__ == "__main__":
    main()
