// Package config defines the options of the driver exec2: the schemas of its plugin block and of a
// task's config block, and their decoded form. The driver decodes both with it; servers check a job's
// blocks with it before a node gets them.
//
// It does not check files, users or the kernel. The driver does, and refuses a task whose path,
// user or limit does not exist on the node. The package has no goroutines.
package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Driver is the name of the driver's kind.
const Driver = "exec2"

// Alias is the name of the plugin block of the external driver.
const Alias = "nomad-driver-exec2"

// SeccompDefault is the profile of tasks unless configured otherwise.
const SeccompDefault = "default"

// Reactions to a sandbox that does not match its policy.
const (
	OnMismatchEvent = "event" // an event of the task
	OnMismatchKill  = "kill"  // an event, and the task fails
)

// Sources of denials that are reported.
const (
	ExplainOff     = "off"
	ExplainSeccomp = "seccomp" // system calls only; auditing is not changed
	ExplainAudit   = "audit"   // files and ports too; turns the kernel's auditing on
)

const defaultPIDsLimit = 1024

// Plugin is the decoded plugin block.
type Plugin struct {
	UnveilDefaults bool
	UnveilByTask   bool
	UnveilPaths    []Unveil

	AllowUnprivileged bool // allow missing parts of the sandbox without root
	AllowRoot         bool // a task may run as root
	RequireABI        int  // Landlock ABI; at least 1

	PIDsLimit    int64 // default limit of processes and threads of a task
	PIDsLimitMax int64 // maximum for a task's pids_limit; never below PIDsLimit

	SeccompProfile   string            // default profile of tasks
	SeccompProfiles  map[string]string // name → file
	AllowTaskSeccomp []string          // profiles that a task may use

	OnMismatch     string
	ExplainDenials string
}

// PluginSpec is the schema of the plugin block.
var PluginSpec = hcldec.ObjectSpec{
	"unveil_defaults":    &hcldec.AttrSpec{Name: "unveil_defaults", Type: cty.Bool},
	"unveil_by_task":     &hcldec.AttrSpec{Name: "unveil_by_task", Type: cty.Bool},
	"unveil_paths":       &hcldec.AttrSpec{Name: "unveil_paths", Type: cty.List(cty.String)},
	"allow_unprivileged": &hcldec.AttrSpec{Name: "allow_unprivileged", Type: cty.Bool},
	"allow_root":         &hcldec.AttrSpec{Name: "allow_root", Type: cty.Bool},
	"require_abi":        &hcldec.AttrSpec{Name: "require_abi", Type: cty.Number},
	"pids_limit":         &hcldec.AttrSpec{Name: "pids_limit", Type: cty.Number},
	"pids_limit_max":     &hcldec.AttrSpec{Name: "pids_limit_max", Type: cty.Number},
	"seccomp_profile":    &hcldec.AttrSpec{Name: "seccomp_profile", Type: cty.String},
	"seccomp_profiles":   &hcldec.BlockAttrsSpec{TypeName: "seccomp_profiles", ElementType: cty.String},
	"allow_task_seccomp": &hcldec.AttrSpec{Name: "allow_task_seccomp", Type: cty.List(cty.String)},
	"on_mismatch":        &hcldec.AttrSpec{Name: "on_mismatch", Type: cty.String},
	"explain_denials":    &hcldec.AttrSpec{Name: "explain_denials", Type: cty.String},
}

// DefaultPlugin returns the settings without a plugin block.
func DefaultPlugin() Plugin {
	return Plugin{UnveilDefaults: true, RequireABI: 1, PIDsLimit: defaultPIDsLimit, PIDsLimitMax: defaultPIDsLimit,
		SeccompProfile: SeccompDefault, OnMismatch: OnMismatchEvent, ExplainDenials: ExplainOff}
}

// DecodePlugin converts a value of PluginSpec; errors name the options.
func DecodePlugin(v cty.Value) (Plugin, error) {
	f := drivers.Fields{Value: v}
	p := DefaultPlugin()
	if f.Has("unveil_defaults") {
		p.UnveilDefaults = f.Bool("unveil_defaults")
	}
	p.UnveilByTask = f.Bool("unveil_by_task")
	p.AllowUnprivileged, p.AllowRoot = f.Bool("allow_unprivileged"), f.Bool("allow_root")
	var errs []error
	count := func(name string, to *int64) {
		if !f.Has(name) {
			return
		}
		if *to = f.Int(name); f.Err() == nil && (*to < 1 || *to > maxPIDs) {
			errs = append(errs, fmt.Errorf("%s: %d is not between 1 and %d", name, *to, maxPIDs))
		}
	}
	abi := int64(p.RequireABI)
	count("require_abi", &abi)
	p.RequireABI = int(abi)
	count("pids_limit", &p.PIDsLimit)
	p.PIDsLimitMax = p.PIDsLimit
	count("pids_limit_max", &p.PIDsLimitMax)
	if p.PIDsLimitMax < p.PIDsLimit {
		errs = append(errs, fmt.Errorf("pids_limit_max: %d is below the pids_limit of %d", p.PIDsLimitMax, p.PIDsLimit))
	}
	p.OnMismatch = choice(&f, &errs, "on_mismatch", OnMismatchEvent, OnMismatchKill)
	p.ExplainDenials = choice(&f, &errs, "explain_denials", ExplainOff, ExplainSeccomp, ExplainAudit)
	p.UnveilPaths = unveils(&f, &errs, "unveil_paths")
	p.seccomp(&f, &errs)
	return p, errors.Join(append([]error{f.Err()}, errs...)...)
}

// seccomp decodes the profiles. It does not read their files.
func (p *Plugin) seccomp(f *drivers.Fields, errs *[]error) {
	p.SeccompProfiles, p.AllowTaskSeccomp = f.Map("seccomp_profiles"), f.Strings("allow_task_seccomp")
	if f.Has("seccomp_profile") {
		if p.SeccompProfile = f.String("seccomp_profile"); p.SeccompProfile == "" {
			*errs = append(*errs, errors.New("seccomp_profile: it is empty: omit it for the default profile"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.SeccompProfiles)) {
		if file := p.SeccompProfiles[name]; name == "" || !filepath.IsAbs(file) {
			*errs = append(*errs, fmt.Errorf("seccomp_profiles: profile %q: file %q is not absolute", name, file))
		}
	}
}

// choice decodes one of a few words; the first is the default.
func choice(f *drivers.Fields, errs *[]error, name string, words ...string) string {
	if !f.Has(name) {
		return words[0]
	}
	word := f.String(name)
	if f.Err() == nil && !slices.Contains(words, word) {
		*errs = append(*errs, fmt.Errorf("%s: %q is not one of %q", name, word, words))
	}
	return word
}
