package artifact

import (
	"fmt"
	"path"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// ExtraPath is an entry of filesystem_isolation_extra_paths.
type ExtraPath struct{ Modes, Name string }

// ParseExtraPath parses [d|f]:[rwxc]+:<path>.
func ParseExtraPath(text string) (ExtraPath, error) {
	kind, rest, _ := strings.Cut(text, ":")
	modes, name, ok := strings.Cut(rest, ":")
	switch {
	case !ok || kind != "d" && kind != "f" || modes == "" || strings.Trim(modes, "rwxc") != "" || !path.IsAbs(name):
		return ExtraPath{}, fmt.Errorf("%q is not of the form [d|f]:[rwxc]+:/path, such as d:r:/etc/pki", text)
	case kind == "f" && strings.Contains(modes, "c"):
		return ExtraPath{}, fmt.Errorf("%q: mode c is for directories", text)
	}
	return ExtraPath{Modes: modes, Name: name}, nil
}

// Paths of the node that a download can access. Missing ones are skipped.
var (
	// loaderPaths are for the loader of shared libraries.
	loaderPaths = []string{"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"}
	// networkPaths are for the resolution of names and for certificates.
	networkPaths = map[string][]string{
		"r": {
			"/etc/hosts", "/etc/hostname", "/etc/services", "/etc/protocols", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
			"/etc/host.conf",
			"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/usr/share/ca-certificates",
			"/usr/local/share/ca-certificates",
			"/etc/pki/tls/certs", "/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted", "/dev/urandom", "/etc/localtime",
		},
		"rw": {"/dev/null"},
	}
	// programPaths are for git, hg and ssh.
	programPaths = map[string][]string{
		"rx": append([]string{"/bin", "/usr/bin", "/usr/local/bin", "/usr/libexec"}, sidecar.SharedLibraries...),
		"r": {
			"/etc/passwd", "/etc/group", "/etc/ssh/ssh_known_hosts",
			"/usr/share/git-core", "/usr/share/mercurial", "/usr/share/zoneinfo", "/dev/zero", "/dev/fd",
		},
	}
)

// paths returns what the program can access during a step.
func (j *job) paths(req *fetch.Request) []drivers.SidecarPath {
	out := []drivers.SidecarPath{{Modes: "rwxc", Name: workName, Beneath: j.stage.path(j.task, "")}}
	if !j.kind.Executes() || req.Archive != "" {
		out[0].Modes = "rwc"
	}
	add := func(list map[string][]string) {
		for modes, names := range list {
			for _, name := range names {
				out = append(out, drivers.SidecarPath{Modes: modes, Name: name, Optional: true})
			}
		}
	}
	add(map[string][]string{"rx": sidecar.Libraries(), "r": loaderPaths})
	if req.Archive != "" {
		return append(out, drivers.SidecarPath{Modes: "r", Name: fetch.ArchiveName, Beneath: j.stage.path(j.task, "")},
			drivers.SidecarPath{Modes: "rw", Name: "/dev/null", Optional: true})
	}
	add(networkPaths)
	if j.kind.Executes() {
		add(programPaths)
	}
	for _, p := range j.cfg.ExtraPaths {
		out = append(out, drivers.SidecarPath{Modes: p.Modes, Name: p.Name, Optional: true})
	}
	return out
}

// hidden returns the directories of the task that the program does not see.
func (t *Task) hidden() []string {
	return []string{t.Dir.SecretsPath(), path.Join(t.Dir.Path(), allocdir.PrivateName)}
}
