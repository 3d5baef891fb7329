package term

import (
	"context"
	"fmt"
	"slices"
)

// later ends the errors for features that this version does not have.
const later = "not part of this version"

// Refuse returns a command of a feature that this version does not have.
func Refuse(name, feature string) Command {
	return Command{Name: name, Local: true, Hidden: true, MaxArgs: -1, Refused: feature,
		Short: "Not part of this version: " + feature,
		Setup: func(*Flags) Run { return func(context.Context, *Env) error { return nil } }}
}

// refuse prints the name of the missing feature for any arguments, or the help for -help.
func (a *adapted) refuse(args []string) int {
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains([]string{"-h", "-help", "--h", "--help"}, arg) }) {
		fmt.Fprintln(a.out, a.Help())
		return 0
	}
	return a.report(fmt.Errorf("nomad %s: %s: %s", a.Name, a.Refused, later))
}

// Refuse declares a flag with a value for a feature that this version does not have.
func (f *Flags) Refuse(name, feature string) {
	f.Func(name, "Not part of this version: "+feature+".", refuseFlag(feature))
}

func refuseFlag(feature string) func(string) error {
	return func(string) error { return fmt.Errorf("%s: %s", feature, later) }
}
