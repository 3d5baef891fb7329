package killed_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// victim is what is killed at a step.
type victim string

const (
	agent      victim = "agent"
	supervisor victim = "supervisor"
	both       victim = "both"
)

var victims = []victim{agent, supervisor, both}

// kill kills a victim on the node, which is held at a step. Release lets the step continue: the program that
// the agent was calling may then do the rest of its work without it.
func (n *node) kill(v victim, release func()) {
	n.t.Helper()
	if v != agent {
		n.killSupervisor()
	}
	if v == supervisor {
		release()
		return
	}
	if err := n.Kill(); err != nil {
		n.t.Fatal(err)
	}
	release()
	n.again()
}

// killSupervisor kills the supervisor of the node, and waits for its end.
func (n *node) killSupervisor() {
	n.t.Helper()
	pid := n.supervisor()
	if pid == 0 {
		n.t.Fatalf("node %s has no supervisor", n.name)
	}
	n.kills++
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
	testpace.Until(n.t, "the supervisor ends", func() bool { return len(commandOf(strconv.Itoa(pid))) == 0 })
}

// supervisor returns the process ID of the node's supervisor, 0 without one.
func (n *node) supervisor() int {
	found := 0
	for _, pid := range allProcesses() {
		if args := commandOf(pid); len(args) > 1 && args[0] == "nomad-supervise" && args[1] == filepath.Join(n.data, "client", "supervise") {
			found, _ = strconv.Atoi(pid)
		}
	}
	return found
}

// allProcesses returns the process IDs of the machine.
func allProcesses() []string {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	return names
}

// commandOf returns the arguments of a process, none if it has ended.
func commandOf(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

// cross calls do with each step and victim, each in a scene of its own. Of three victims, a step has the first and one of
// the others in turn, or all with KILLED=all.
func (f *fleet) cross(steps []string, victims []victim, do func(step string, v victim)) {
	for _, step := range steps {
		chosen := victims
		if len(victims) > 2 && os.Getenv("KILLED") != "all" {
			chosen = []victim{victims[0], victims[1+f.steps%(len(victims)-1)]}
		}
		f.steps++
		for _, v := range chosen {
			if !f.scene(fmt.Sprintf("%s, %s", step, v), func() { do(step, v) }) {
				return // the next scene would find the same remains
			}
		}
	}
}

// ordered returns the points of a CNI command.
func ordered(command string) []string {
	var out []string
	for _, name := range pluginOrder {
		out = append(out, command+"-"+name+"-before", command+"-"+name+"-after")
	}
	if command == "DEL" {
		slices.Reverse(out)
	}
	return out
}
