"""`python -m deltacli` is the same program as `deltacli`."""

from deltacli.cli.app import main

if __name__ == "__main__":
    main()
