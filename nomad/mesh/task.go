package mesh

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// The images of Envoy, as metadata of the node. Its client knows the version that its Consul supports.
const (
	sidecarImage = "${meta.connect.sidecar_image}"
	gatewayImage = "${meta.connect.gateway_image}"
)

// bootstrapFile is where the client writes the configuration of Envoy.
const bootstrapFile = "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json"

// shutdownDelay is the time that a proxy has for open connections.
const shutdownDelay = 5 * time.Second

// The drivers that run Envoy.
const (
	driverDocker = "docker"
	driverPodman = "podman"
)

// addTask returns the task with a role for a service. It adds the task, unless the group has it, and merges sidecar_task.
func addTask(tg *nomad.TaskGroup, s *nomad.Service, role string) *nomad.Task {
	own := kind(role, s)
	i := slices.IndexFunc(tg.Tasks, func(t *nomad.Task) bool { return t.Kind == own })
	if i < 0 {
		i = len(tg.Tasks)
		tg.Tasks = append(tg.Tasks, newTask(tg, s, role))
	}
	t := tg.Tasks[i]
	merge(t, s.Connect.SidecarTask)
	return t
}

// newTask returns the task of a proxy with its defaults.
func newTask(tg *nomad.TaskGroup, s *nomad.Service, role string) *nomad.Task {
	image := gatewayImage
	t := &nomad.Task{
		Name: taskName(tg, connect.PortLabel(role, s.Name)), Kind: kind(role, s), Driver: driverOf(tg), ShutdownDelay: shutdownDelay,
		LogConfig: &nomad.LogConfig{MaxFiles: 2, MaxFileSizeMB: 2},
		Resources: &nomad.Resources{CPU: 250, MemoryMB: 128},
	}
	if role == connect.RoleProxy {
		image = sidecarImage
		t.Lifecycle = &nomad.TaskLifecycleConfig{Hook: nomad.TaskLifecycleHookPrestart, Sidecar: true}
	}
	t.Config = map[string]any{"image": image, "args": []any{"-c", bootstrapFile, "-l", "${meta.connect.log_level}",
		"--concurrency", "${meta.connect.proxy_concurrency}", "--disable-hot-restart"}}
	return t
}

// driverOf returns the driver for Envoy: podman, if the group uses it and not docker.
func driverOf(tg *nomad.TaskGroup) string {
	uses := func(driver string) bool {
		return slices.ContainsFunc(tg.Tasks, func(t *nomad.Task) bool { return t.Driver == driver })
	}
	if uses(driverPodman) && !uses(driverDocker) {
		return driverPodman
	}
	return driverDocker
}

// taskName returns the name, with a suffix if a task of the job file has it. The suffix depends on the name only.
func taskName(tg *nomad.TaskGroup, name string) string {
	if tg.Task(name) == nil {
		return name
	}
	return name + "-" + suffix(name)
}

// suffix returns six hexadecimal characters that depend on the parts.
func suffix(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:6]
}
