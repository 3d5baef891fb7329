package jobrules

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"aead.dev/minisign"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
)

// validateArtifacts checks the artifact blocks of a task. A value with a reference is checked on the node only.
func validateArtifacts(t *nomad.Task, f *faults) {
	for _, a := range t.Artifacts {
		validateArtifact(a, f.in("artifact", artifactName(a)), t.Name)
	}
}

// artifactName returns the source of an artifact without credentials.
func artifactName(a *nomad.TaskArtifact) string {
	s, err := fetch.ParseSource(a.GetterSource, nil)
	if err != nil {
		return ""
	}
	return s.String()
}

func validateArtifact(a *nomad.TaskArtifact, f *faults, task string) {
	source, err := fetch.ParseSource(a.GetterSource, a.GetterOptions)
	if err != nil {
		f.add("%v: set source to a URL, such as https://host/file", err)
		return
	}
	var kind fetch.Kind
	if !refers(a.GetterSource) {
		if kind, err = source.Kind(); err != nil {
			f.add("source: %v", err)
		}
	}
	if sum := source.Option("checksum"); sum != "" && !refers(sum) {
		if _, err := fetch.ParseChecksum(sum); err != nil {
			f.add("options: %v", err)
		}
	}
	switch a.GetterMode {
	case "", fetch.ModeAny, fetch.ModeFile, fetch.ModeDir:
	default:
		if !refers(a.GetterMode) {
			f.add("mode is %q: use any, file or dir", a.GetterMode)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.GetterHeaders)) {
		if !validHeader(name, a.GetterHeaders[name]) {
			f.add("headers: %q is not a valid header: the name or the value contains a character that is not allowed", name)
		}
	}
	validateDestination(a.RelativeDest, f, task)
	validateArtifactVerify(a.Verify, f, kind)
}

// refers reports whether a value contains a reference that only the node can replace.
func refers(value string) bool { return strings.Contains(value, "${") }

// validHeader reports whether a header can be sent (RFC 9110).
func validHeader(name, value string) bool {
	if refers(name) {
		return true
	}
	token := func(r rune) bool {
		return r > 0x20 && r < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !token(r) }) &&
		!strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}

func validateDestination(destination string, f *faults, task string) {
	if strings.ContainsFunc(destination, unicode.IsControl) {
		f.add("destination %q contains a control character", destination)
		return
	}
	if outside(destination, task) {
		f.add("destination %q is outside the directory of the task and the shared directory: use a path such as local/, or ../alloc/data/",
			destination)
	}
	if at := path.Join(task, destination); at == "alloc/logs" || strings.HasPrefix(at, "alloc/logs/") {
		f.add("destination %q is in the directory of the logs, which belongs to the agent: use a path such as ../alloc/data/", destination)
	}
}

// outside reports whether a path leads out of the directories that a task can use. As on the node, it
// is relative to the directory of the task, which is in that of the allocation.
func outside(name, task string) bool {
	first, _, _ := strings.Cut(path.Join(task, name), "/")
	return first != task && first != "alloc" && !strings.HasPrefix(name, "${")
}

func validateArtifactVerify(v *nomad.ArtifactVerify, f *faults, kind fetch.Kind) {
	if v == nil {
		return
	}
	if kind.Executes() {
		f.add("verify: a download with %s is not a file, so that it cannot be signed: remove verify", kind)
	}
	if !refers(v.MinisignKey) {
		if err := checkMinisignKey(v.MinisignKey); err != nil {
			f.add("verify: minisign_key: %v", err)
		}
	}
	if v.Signature == "" || refers(v.Signature) {
		return
	}
	signature, err := fetch.ParseSource(v.Signature, nil)
	if err == nil {
		_, err = signature.Kind()
	}
	if err != nil {
		f.add("verify: signature: %v", err)
	}
}

// checkMinisignKey checks a public key: the line in base64, or the whole file.
func checkMinisignKey(text string) error {
	if text == "" {
		return fmt.Errorf("missing: set it to the public key, the second line of minisign.pub")
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
		return fmt.Errorf("not a public key of minisign: use the second line of minisign.pub")
	}
	return nil
}
