package proc

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadStat(t *testing.T) {
	got, err := ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Parent != os.Getppid() || got.Group != unix.Getpgrp() || got.Session != session || got.Start == 0 {
		t.Errorf("ReadStat() = %+v, want parent %d, group %d, session %d", got, os.Getppid(), unix.Getpgrp(), session)
	}
	if _, err := ReadStat(-1); err == nil {
		t.Error("ReadStat(-1) = nil, want an error")
	}
}

// A command name can look like the rest of the line.
func TestParseStat(t *testing.T) {
	text := "7 (a) R 1 2 3 (b)) Z 4 5 6" + strings.Repeat(" 0", 15) + " 99" + strings.Repeat(" 0", 29) + " 256\n"
	want := Stat{State: "Z", Parent: 4, Group: 5, Session: 6, Start: 99, Status: 256}
	if got, err := parseStat(7, text); err != nil || got != want {
		t.Errorf("parseStat() = %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseStat(7, "7 (x) R 1 2 3"); err == nil {
		t.Error("parseStat() of a short line = nil, want an error")
	}
}
