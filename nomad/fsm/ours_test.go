package fsm

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// upstreamUses reports whether servers of Nomad 2.0 use, reserve or leave free the number of a
// message type: see the table of message types. 127 marks the start of its system.
func upstreamUses(number message.CommandType) bool { return number <= 77 || number == 127 }

// The types of this project are the rows of the table of commands with numbers that upstream does
// not use. Upstream's servers would run an entry of another number as a command of theirs, or stop
// at an entry without the ignore flag.
func TestOwnTypesAreTheRowsThatUpstreamLacks(t *testing.T) {
	table, own := commandTable(), 0
	if len(table) != len(allCommands()) {
		t.Errorf("the table has %d rows and %d numbers", len(allCommands()), len(table))
	}
	for number := range message.IgnoreUnknownTypeFlag {
		c, known := table[number]
		want := known && !upstreamUses(number)
		if number.Ours() != want {
			t.Errorf("type %d (%q): Ours() = %t, want %t", number, c.name, number.Ours(), want)
		}
		if want {
			own++
		}
		if known && (c.name == "" || CommandName(number) != c.name) {
			t.Errorf("type %d has the name %q, and CommandName() = %q", number, c.name, CommandName(number))
		}
		if reserved := number == 63 || number >= 66 && number <= 74 || number == 127; known && reserved {
			t.Errorf("type %d (%s) has a number that upstream reserves", number, c.name)
		}
	}
	if own == 0 {
		t.Error("the table has no command of this project")
	}
	if got := CommandName(99); got != "Unknown(99)" {
		t.Errorf("CommandName(99) = %q", got)
	}
}
