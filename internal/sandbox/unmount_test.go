package sandbox_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// TestUnmount checks that a program keeps no mounts of the volumes of others, also if they are hidden, and that a bind of one of
// them stays.
func TestUnmount(t *testing.T) {
	p := newPlaces(t)
	agent := mkdir(t, filepath.Join(p.alloc, "agent"))
	volumes := mkdir(t, filepath.Join(agent, "volumes"))
	mountMemory(t, volumes)
	for _, name := range []string{"own", "other"} {
		at := filepath.Join(volumes, name)
		mountMemory(t, mkdir(t, at))
		write(t, filepath.Join(at, "file"), name+"\n")
	}
	target := mkdir(t, filepath.Join(p.task, "volume"))
	for name, hide := range map[string][]string{"visible": nil, "hidden": {agent}} {
		t.Run(name, func(t *testing.T) {
			policy := p.policy(&sandbox.Mounts{Hide: hide, Unmount: []string{volumes, agent, agent + "/absent"}, Proc: true,
				Binds: []sandbox.Bind{{Source: sandbox.Path{Name: filepath.Join(volumes, "own")}, Target: target}}})
			r := runPolicy(t, policy, "cat volume/file; cat /proc/self/mountinfo")
			if r.reason != "" || !strings.HasPrefix(r.out, "own\n") {
				t.Fatalf("program = %+v, want its volume", r)
			}
			if strings.Contains(r.out, volumes) {
				t.Errorf("the program keeps a mount below %s:\n%s", volumes, r.out)
			}
		})
	}
	if !strings.Contains(hostMounts(t, p.alloc), filepath.Join(volumes, "other")) {
		t.Error("the host has lost a mount")
	}
}
