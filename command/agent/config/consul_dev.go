package config

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// presetConsul applies -dev-consul: the default cluster, with identities for services and tasks.
func (s *Settings) presetConsul() {
	c := decode.ByName(reflect.ValueOf(&s.Consul).Elem(), "").Interface().(*Consul)
	id := Identity{Aud: []string{"consul.io"}, TTL: "1h"}
	c.ServiceIdentity, c.TaskIdentity = id, id
}

// presetConnect applies -dev-connect: the node has the network of the machine instead of loopback, since the proxies of
// tasks have a network namespace. The API stays on loopback.
func (s *Settings) presetConnect() error {
	if os.Geteuid() != 0 {
		return errors.New("-dev-connect: must run as root")
	}
	if _, err := exec.LookPath("consul"); err != nil {
		return fmt.Errorf("-dev-connect: the program consul must be in PATH: %w", err)
	}
	s.connect = true
	return nil
}
