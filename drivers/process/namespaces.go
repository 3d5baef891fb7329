package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// OwnNamespaces returns an error if this agent cannot give programs their own namespaces. It tries
// once.
func OwnNamespaces() error { return tryNamespaces() }

// noProgram does not exist, so that the test process ends after all namespaces were created.
const noProgram = "/nonexistent/nomad-trial"

// trialPatience is the time limit of the trial.
const trialPatience = time.Minute

var tryNamespaces = sync.OnceValue(func() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	ctx, cancel := context.WithTimeout(context.Background(), trialPatience)
	defer cancel()
	trial := &sandbox.Command{Policy: &sandbox.Policy{Argv: []string{noProgram}, MissingExit: missingExit, Dir: "/",
		Seccomp:    sandbox.SeccompNone,
		PrivatePID: true, OwnUsers: os.Geteuid() != 0, PrivateIPC: true, Mounts: &sandbox.Mounts{Proc: true}},
		Stdio: [3]*os.File{null, null, null}}
	ws, err := trial.Run(ctx, nil)
	if err == nil && ws.ExitStatus() != missingExit {
		err = fmt.Errorf("the test process ended with wait status %#x", uint32(ws))
	}
	return err
})

// hiddenDirs look empty to programs, except for granted paths. Host services have sockets there,
// which only file modes protect.
var hiddenDirs = []string{"/run", "/var/run"}

// errNoNetwork means that a program without root cannot join a network namespace.
var errNoNetwork = errors.New("the task needs its own network, which needs an agent that runs as root")

// Isolate gives a program the namespaces of a task. The PID namespace has a fresh /proc with the
// program's processes only. The mount namespace has the task's temporary directory as /tmp, only the
// task's allocation, the client's files, and nothing in /run except granted paths. The program also
// gets an IPC namespace, and the network of the task's group. An agent without root creates them in a
// user namespace. The caller has checked OwnNamespaces.
func Isolate(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	if os.Geteuid() != 0 {
		if cfg.NetNS != "" || cfg.Hostname != "" {
			return errNoNetwork
		}
		p.OwnUsers = true
	}
	tmp, err := InAlloc(cfg, TmpDir(cfg))
	if err != nil {
		return err
	}
	p.PrivatePID, p.PrivateIPC, p.NetNS, p.Hostname = true, true, cfg.NetNS, cfg.Hostname
	p.Mounts = &sandbox.Mounts{Hide: hiddenDirs, View: viewOf(cfg), Tmp: tmp, Proc: true}
	for _, f := range cfg.Files {
		// The host's file may be a link; the bind covers its target.
		target, err := filepath.EvalSymlinks(f.Target)
		if err != nil {
			return fmt.Errorf("mount a file over %s: on this node: %w", f.Target, err)
		}
		p.Mounts.Binds = append(p.Mounts.Binds,
			sandbox.Bind{Source: sandbox.Path{Name: f.Name, Beneath: cfg.AllocDir}, Target: target, ReadOnly: true})
	}
	return nil
}

// viewOf returns what the program sees of the allocations: its own one, next to which are the others.
//
// In /tmp that is not sufficient without root. The program may read all of /tmp, and Landlock extends that to everything
// mounted below it. Other tasks have their own users only if the agent is root. So the program sees only its own
// directory there, and those that it is granted, as mounts of their own: it cannot make hard links between them.
func viewOf(cfg *drivers.TaskConfig) sandbox.View {
	if os.Geteuid() != 0 && strings.HasPrefix(cfg.AllocDir, "/tmp/") {
		return sandbox.View{Dir: cfg.AllocDir, Own: filepath.Base(cfg.TaskDir)}
	}
	return sandbox.View{Dir: filepath.Dir(cfg.AllocDir), Own: filepath.Base(cfg.AllocDir)}
}

// TmpDir returns the task's temporary directory.
func TmpDir(cfg *drivers.TaskConfig) string { return filepath.Join(cfg.TaskDir, "tmp") }

// InAlloc returns a path relative to the allocation's directory, which belongs to root.
func InAlloc(cfg *drivers.TaskConfig, name string) (sandbox.Path, error) {
	rel, err := filepath.Rel(cfg.AllocDir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return sandbox.Path{}, fmt.Errorf("%s is not inside the allocation's directory", name)
	}
	return sandbox.Path{Name: rel, Beneath: cfg.AllocDir}, nil
}
