package pty_test

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"

	"github.com/open-nomad/open-nomad/internal/pty"
)

func TestTerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if !term.IsTerminal(int(slave.Fd())) {
		t.Error("the slave is not a terminal")
	}
	if err := pty.Resize(master, 33, 77); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "stty size; read x; stty size; ps -o tty= -p $$")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	lines := bufio.NewScanner(master)
	next := func() string {
		lines.Scan()
		return strings.TrimSpace(lines.Text())
	}
	if got := next(); got != "33 77" {
		t.Errorf("stty size = %q, want 33 77", got)
	}
	if err := pty.Resize(master, 10, 20); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if echo, got, tty := next(), next(), next(); echo != "go" || got != "10 20" || !strings.HasPrefix(tty, "pts/") {
		t.Errorf("then %q %q %q, want go, 10 20 and a terminal", echo, got, tty)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Closing the master ends a read of it.
func TestClosedMaster(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := master.Read(make([]byte, 1))
		ended <- err
	}()
	master.Close()
	if err := <-ended; err == nil {
		t.Error("a read from a closed terminal returned data")
	}
}
