// Command man writes the manual pages of all commands to a directory. Their date is that of
// SOURCE_DATE_EPOCH, so that two runs write equal files. Package command/man makes the pages.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=<seconds> man <directory>")
		os.Exit(2)
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "man: SOURCE_DATE_EPOCH is the time of the pages in seconds since 1970:", err)
		os.Exit(2)
	}
	if err := command.WriteManPages(os.Args[1], time.Unix(epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "man: write the manual pages:", err)
		os.Exit(1)
	}
}
