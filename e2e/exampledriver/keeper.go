package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"example.com/exampledriver/proto"
)

// keeperArg is the argument of a keeper, followed by its directory.
const keeperArg = "keep"

// Files in the directory of a keeper.
const (
	orderFile = "order" // what to run
	pidFile   = "pid"   // of the program
	exitFile  = "exit"  // written when it has ended
)

// started is what a keeper prints when the program runs. Anything else is an error.
const started = "started"

// order is what a keeper runs.
type order struct {
	Argv, Env      []string
	Dir            string
	Stdout, Stderr string // FIFOs of the client
}

// keep runs the program of a task and writes its exit.
func keep(dir string) error {
	// Caught, not ignored: the program would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	raw, err := os.ReadFile(filepath.Join(dir, orderFile))
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	cmd, err := run(&o)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	}
	if err != nil {
		fmt.Print(err)
		return err
	}
	fmt.Print(started)
	os.Stdout.Close()
	cmd.Wait()
	result := &proto.ExitResult{ExitCode: int32(cmd.ProcessState.ExitCode())}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		result.Signal, result.ExitCode = int32(ws.Signal()), 128+int32(ws.Signal())
	}
	raw, err = json.Marshal(result)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, exitFile+".new")
	if err := os.WriteFile(temp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, exitFile))
}

// run starts the program. It opens the FIFOs for reading too, so that the program never gets SIGPIPE.
func run(o *order) (*exec.Cmd, error) {
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := os.OpenFile(o.Stdout, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.OpenFile(o.Stderr, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, cmd.Start()
}
