package config

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// attr returns the schema of an attribute.
func attr(name string, t cty.Type) *hcldec.AttrSpec { return &hcldec.AttrSpec{Name: name, Type: t} }

// block returns the schema of a block that may be given once.
func block(name string, nested hcldec.ObjectSpec) *hcldec.BlockSpec {
	return &hcldec.BlockSpec{TypeName: name, Nested: nested}
}

// object returns the schema of attributes, by type.
func object(of map[string]cty.Type) hcldec.ObjectSpec {
	out := hcldec.ObjectSpec{}
	for name, t := range of {
		out[name] = attr(name, t)
	}
	return out
}

// with returns a schema with blocks in addition.
func (b blocks) with(o hcldec.ObjectSpec) hcldec.ObjectSpec {
	for name, s := range b {
		o[name] = s
	}
	return o
}

type blocks map[string]hcldec.Spec

// stringList and stringMap are types of attributes. A map of strings has any type, because jobs write it
// as an attribute or as blocks (Fields.Maps does not read attributes).
var (
	stringList = cty.List(cty.String)
	stringMap  = cty.DynamicPseudoType
)

var PluginSpec = blocks{
	"auth":    block("auth", object(map[string]cty.Type{"config": cty.String, "helper": cty.String, "helper_dir": cty.String})),
	"tls":     block("tls", object(map[string]cty.Type{"cert": cty.String, "key": cty.String, "ca": cty.String})),
	"logging": block("logging", object(map[string]cty.Type{"type": cty.String, "config": stringMap})),
	"gc": block("gc", blocks{"dangling_containers": block("dangling_containers", object(map[string]cty.Type{
		"enabled": cty.Bool, "period": cty.String, "creation_grace": cty.String, "dry_run": cty.Bool}))}.with(object(map[string]cty.Type{
		"image": cty.Bool, "image_delay": cty.String, "container": cty.Bool}))),
	"volumes": block("volumes", object(map[string]cty.Type{"enabled": cty.Bool, "selinuxlabel": cty.String})),
	"allowed_modes": block("allowed_modes",
		object(map[string]cty.Type{"pid": stringList, "ipc": stringList, "userns": stringList, "uts": stringList})),
}.with(object(map[string]cty.Type{
	"endpoint": cty.String, "extra_labels": stringList, "allow_privileged": cty.Bool, drivers.LegacyOption: cty.Bool,
	"allow_caps": stringList, "nvidia_runtime": cty.String,
	"allow_networks": stringList, "allow_runtimes": stringList, "allow_logging_types": stringList, "infra_image": cty.String,
	"infra_image_pull_timeout": cty.String, "image_pull_timeout": cty.String,
	"pull_activity_timeout": cty.String, "container_exists_attempts": cty.Number, "oom_score_adj": cty.Number, "pids_limit": cty.Number,
	"disable_log_collection": cty.Bool, "windows_allow_insecure_container_admin": cty.Bool,
}))

// Plugin is the decoded plugin block.
type Plugin struct {
	Endpoint         string
	AuthFile         string
	AuthHelper       string
	HelperDir        string // "" for the default
	Cert, Key, CA    string
	ExtraLabels      []string
	logging          Logging
	GCImage          bool
	GCImageDelay     time.Duration
	GCContainer      bool
	Dangling         Dangling
	Volumes          bool
	SELinux          string
	Privileged       bool
	Legacy           bool     // tasks need no privileged = true
	caps             []string // allowed capabilities, as canonical names; "ALL" allows all
	Runtimes         []string
	loggers          []string            // that tasks can name
	networks         []string            // allowed patterns of networks, nil for the default
	modes            map[string][]string // allowed patterns, by kind of namespace
	InfraImage       string
	InfraPullTimeout time.Duration
	PullTimeout      time.Duration
	PullActivity     time.Duration
	Attempts         int // to create a container whose name exists
	OOMScoreAdj      int
	PidsLimit        int64
	NoLogs           bool
}

// NvidiaRuntime is runc with a hook that mounts more than was asked for.
const NvidiaRuntime = "nvidia"

// Logging is the daemon's own logger of a container.
type Logging struct {
	Driver  string
	Options map[string]string
}

// Dangling configures the removal of containers without a task.
type Dangling struct {
	Enabled       bool
	Period, Grace time.Duration
	DryRun        bool
}

// nested returns the reader of a block, which may be missing.
func nested(f *drivers.Fields, name string) *drivers.Fields {
	if !f.Has(name) {
		return &drivers.Fields{Value: cty.NilVal}
	}
	return &drivers.Fields{Value: f.Value.GetAttr(name)}
}

// enabled reads a boolean that is true by default.
func enabled(f *drivers.Fields, name string) bool { return !f.Has(name) || f.Bool(name) }

// period reads a duration with a default.
func period(f *drivers.Fields, name string, fallback time.Duration) time.Duration {
	if !f.Has(name) {
		return fallback
	}
	return f.Duration(name)
}

// minPeriod is the minimum of the periods that the documentation of Nomad limits.
const minPeriod = time.Minute

// defaultImageDelay is the delay before an unused image is removed.
const defaultImageDelay = 3 * time.Minute

func DecodePlugin(v cty.Value) (Plugin, error) {
	f := &drivers.Fields{Value: v}
	auth, tls, logs, gc, volumes, modes := nested(f, "auth"), nested(f, "tls"), nested(f, "logging"), nested(f, "gc"), nested(f,
		"volumes"), nested(f, "allowed_modes")
	gone := nested(gc, "dangling_containers")
	s := Plugin{
		Endpoint: f.String("endpoint"), AuthFile: auth.String("config"), AuthHelper: auth.String("helper"), HelperDir: auth.String("helper_dir"),
		Cert: tls.String("cert"), Key: tls.String("key"), CA: tls.String("ca"), ExtraLabels: f.Strings("extra_labels"),
		GCImage: enabled(gc, "image"), GCImageDelay: period(gc, "image_delay", defaultImageDelay), GCContainer: enabled(gc, "container"),
		Dangling: Dangling{Enabled: enabled(gone, "enabled"), Period: period(gone, "period", 5*time.Minute),
			Grace: period(gone, "creation_grace", 5*time.Minute), DryRun: gone.Bool("dry_run")},
		Volumes: volumes.Bool("enabled"), SELinux: volumes.String("selinuxlabel"), Privileged: f.Bool("allow_privileged"),
		Legacy:           f.Bool(drivers.LegacyOption),
		Runtimes:         []string{"runc", "nvidia"},
		InfraImage:       strings.TrimPrefix(cmp.Or(f.String("infra_image"), "registry.k8s.io/pause-"+runtime.GOARCH+":3.3"), "https://"),
		InfraPullTimeout: period(f, "infra_image_pull_timeout", 5*time.Minute), PullTimeout: period(f, "image_pull_timeout", 5*time.Minute),
		PullActivity: period(f, "pull_activity_timeout", 2*time.Minute), Attempts: 5, OOMScoreAdj: int(f.Int("oom_score_adj")),
		PidsLimit: f.Int("pids_limit"), NoLogs: f.Bool("disable_log_collection"),
	}
	if f.Has("allow_runtimes") {
		s.Runtimes = f.Strings("allow_runtimes")
	}
	if f.Has("allow_networks") {
		s.networks = append([]string{}, f.Strings("allow_networks")...)
	}
	if f.Has("container_exists_attempts") {
		s.Attempts = int(f.Int("container_exists_attempts"))
	}
	if s.loggers = slices.Sorted(maps.Keys(loggerOptions)); f.Has("allow_logging_types") {
		s.loggers = f.Strings("allow_logging_types")
	}
	s.caps = defaultCaps
	if f.Has("allow_caps") {
		s.caps = CapabilityNames(f.Strings("allow_caps"))
	}
	s.modes = map[string][]string{}
	for _, kind := range modeKinds {
		s.modes[kind] = modes.Strings(kind)
	}
	s.logging = decodeLogging(logs, "type")
	if s.logging.Driver == "" && s.logging.Options == nil {
		s.logging = Logging{defaultLogger, map[string]string{"max-file": "2", "max-size": "2m"}}
	}
	for name, r := range map[string]*drivers.Fields{"": f, "auth.": auth, "tls.": tls, "logging.": logs, "gc.": gc,
		"gc.dangling_containers.": gone, "volumes.": volumes, "allowed_modes.": modes} {
		if err := r.Err(); err != nil {
			return s, fmt.Errorf("%s%w", name, err)
		}
	}
	return s, s.check(f)
}

// check checks the values of the settings.
func (s *Plugin) check(f *drivers.Fields) error {
	switch {
	case s.Dangling.Grace < minPeriod:
		return fmt.Errorf("gc.dangling_containers: creation_grace is less than minimum, %v", minPeriod)
	case s.Dangling.Period <= 0:
		return fmt.Errorf("gc.dangling_containers: period %v is not positive", s.Dangling.Period)
	case s.PullActivity < minPeriod:
		return fmt.Errorf("pull_activity_timeout is less than minimum, %v", minPeriod)
	case s.PullTimeout <= 0 || s.InfraPullTimeout <= 0:
		return fmt.Errorf("image_pull_timeout and infra_image_pull_timeout must be positive")
	case s.Attempts < 1 || s.Attempts > maxAttempts:
		return fmt.Errorf("container_exists_attempts %d is not between 1 and %d", s.Attempts, maxAttempts)
	case s.OOMScoreAdj < -1000 || s.OOMScoreAdj > 1000:
		return fmt.Errorf("oom_score_adj %d is not between -1000 and 1000", s.OOMScoreAdj)
	case s.HelperDir != "" && !path.IsAbs(s.HelperDir):
		return fmt.Errorf("auth: helper_dir %q is not an absolute path", s.HelperDir)
	case s.PidsLimit < 0:
		return fmt.Errorf("pids_limit %d is negative", s.PidsLimit)
	case f.Has("windows_allow_insecure_container_admin"):
		return fmt.Errorf("not served: windows_allow_insecure_container_admin: this driver runs on Linux only")
	case f.Has("nvidia_runtime") && f.String("nvidia_runtime") != "nvidia":
		return fmt.Errorf("not served: nvidia_runtime: device plugins reserve GPUs; tasks name a runtime of allow_runtimes in runtime")
	}
	for option, globs := range map[string][]string{"extra_labels": s.ExtraLabels, "allow_networks": s.networks} {
		for _, glob := range globs {
			if _, err := path.Match(glob, ""); err != nil {
				return fmt.Errorf("%s: %q is not a pattern", option, glob)
			}
		}
	}
	for _, name := range s.caps {
		if !slices.Contains(allCaps, name) && name != capAll {
			return fmt.Errorf("allow_caps: unknown capability %q", strings.ToLower(name))
		}
	}
	return s.checkModes()
}

// maxAttempts limits the attempts to create a container.
const maxAttempts = 100

// CheckConfig checks a plugin block.
func CheckConfig(config map[string]any) error {
	return drivers.CheckWith(PluginSpec, DecodePlugin)(config)
}

// decodeLogging reads a logging block, whose logger has one of two names.
func decodeLogging(f *drivers.Fields, names ...string) Logging {
	var l Logging
	for _, name := range names {
		l.Driver = cmp.Or(l.Driver, f.String(name))
	}
	if f.Has("config") {
		l.Options = texts(f, "config")
	}
	return l
}
