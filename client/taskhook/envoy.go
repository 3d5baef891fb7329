package taskhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// errNoMesh is the error of a task of the mesh on a node without Consul.
var errNoMesh = &Fault{Type: nomad.TaskSetupFailure, Err: errors.New("the task is part of the service mesh of Consul: this client " +
	"has no consul block")}

// meshRole returns the role of a task in the mesh, and an error if its service does not exist.
func meshRole(req *TaskPrestartRequest) (connect.Role, bool, error) {
	if req.Alloc.Job == nil {
		return connect.Role{}, false, nil
	}
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if group == nil {
		return connect.Role{}, false, nil
	}
	role, ok := connect.RoleOf(group, req.Task)
	if ok && role.Service == nil {
		return role, ok, &Fault{Type: nomad.TaskFailedValidation, Err: fmt.Errorf(
			"the task has kind %q, and the group has no such service with a connect block", req.Task.Kind)}
	}
	return role, ok, nil
}

// envoyVersionHook sets the version of Envoy for the name of a proxy's image. Consul has a list of the versions that it
// can configure, and the first one is used.
type envoyVersionHook struct{ mesh *connect.Node }

func newEnvoyVersionHook(c Config) hook.Hook { return &envoyVersionHook{c.Mesh} }

func (*envoyVersionHook) Name() string { return "envoy_version" }

func (h *envoyVersionHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	role, ok, err := meshRole(req)
	if err != nil || !ok || !role.Envoy() || !wantsVersion(req) {
		return err
	}
	if h.mesh == nil {
		return errNoMesh
	}
	version, err := h.version(ctx)
	if err != nil {
		return setupFault(fmt.Errorf("find the version of Envoy: %w", err))
	}
	resp.Env = map[string]string{taskenv.EnvoyVersion: version}
	return nil
}

// wantsVersion reports whether the name of the task's image contains the version.
func wantsVersion(req *TaskPrestartRequest) bool {
	image, _ := req.Task.Config["image"].(string)
	return strings.Contains(req.Env.Expand(image), "${"+taskenv.EnvoyVersion+"}")
}

// version returns the first version that Consul supports.
func (h *envoyVersionHook) version(ctx context.Context) (string, error) {
	ctx, cancel := h.mesh.Agent.Within(ctx)
	defer cancel()
	var self struct {
		XDS struct{ SupportedProxies map[string][]string } `json:"xDS"`
	}
	if _, err := h.mesh.Agent.Client().Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return "", consul.Redact(err)
	}
	versions := self.XDS.SupportedProxies["envoy"]
	if len(versions) == 0 {
		return "", errors.New("the agent of Consul supports none: use a Consul with its service mesh enabled, or set the image")
	}
	if !isVersion(versions[0]) {
		return "", fmt.Errorf("the agent of Consul supports %.64q, which is not a version", versions[0])
	}
	return versions[0], nil
}

// isVersion reports whether a text can be part of the name of an image.
func isVersion(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '_'
	})
}
