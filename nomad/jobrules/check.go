package jobrules

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
)

// minCheckTime is the minimum of interval and timeout of a check.
const minCheckTime = time.Second

// checkTypes are the valid types of checks.
var checkTypes = []string{nomad.ServiceCheckGRPC, nomad.ServiceCheckTCP, nomad.ServiceCheckHTTP, nomad.ServiceCheckScript}

// checkMethods are the valid methods of HTTP checks.
var checkMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// initialStatuses are the valid statuses of a check before its first result.
var initialStatuses = []string{"", "passing", "warning", "critical"}

// maxNotes is the maximum length of the notes of a check, in bytes.
const maxNotes = 255

// headerName matches the name of an HTTP header.
var headerName = pattern.Lazy("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")

// checks checks the checks of a service. t is nil for a service of the group.
func (r *serviceRules) checks(f *faults, s *nomad.Service, t *nomad.Task) {
	seen := map[string]bool{}
	for _, c := range s.Checks {
		in := f.in("check", c.Name)
		if t != nil && seen[c.Name] {
			in.add("duplicate check name: rename one")
		}
		seen[c.Name] = true
		r.check(in, c, s, t)
	}
}

func (r *serviceRules) check(f *faults, c *nomad.ServiceCheck, s *nomad.Service, t *nomad.Task) {
	switch c.Type {
	case nomad.ServiceCheckTCP:
		r.checkAddress(f, c, s, t)
	case nomad.ServiceCheckHTTP:
		r.checkAddress(f, c, s, t)
		validateHTTPCheck(f, c, s)
	case nomad.ServiceCheckScript:
		r.scriptCheck(f, c, s, t)
	case nomad.ServiceCheckGRPC:
		r.checkAddress(f, c, s, t)
	default:
		checkType(f, c, s)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"interval", c.Interval}, {"timeout", c.Timeout}} {
		if d.value < minCheckTime {
			f.add("%s is %s: set it to %s or more", d.name, d.value, minCheckTime)
		}
	}
	r.task(f, c.TaskName, t)
	validateCheckUpdate(f, c, s)
	validateStatus(f, c)
	if s.Provider == nomad.ServiceProviderConsul {
		consulCheck(f, c, s, t)
		return
	}
	validateTLS(f, c)
	if c.Expose {
		f.add("expose is a feature of Consul: remove it")
	}
}

// checkType adds the fault of an unknown type.
func checkType(f *faults, c *nomad.ServiceCheck, s *nomad.Service) {
	switch {
	case s.Provider == nomad.ServiceProviderConsul:
		f.add("invalid check type (%q), must be one of grpc, tcp, http, script", c.Type)
	case c.Type == "":
		f.add("missing type: use tcp, http, grpc or script")
	default:
		f.add("type is %q: use tcp, http, grpc or script", c.Type)
	}
}

// checkAddress checks where a check connects to.
func (r *serviceRules) checkAddress(f *faults, c *nomad.ServiceCheck, s *nomad.Service, t *nomad.Task) {
	if s.Provider == nomad.ServiceProviderConsul {
		r.consulCheckAddress(f, c, s, t)
		return
	}
	switch c.AddressMode {
	case "", addressHost, addressAlloc, addressAllocIPv6:
	default:
		f.add("address_mode is %q: use host, alloc or alloc_ipv6, or remove it", c.AddressMode)
	}
	switch {
	case c.PortLabel != "":
		r.port(f, c.PortLabel, t, t == nil)
	case s.PortLabel == "":
		f.add("no address: set port of the check or of the service")
	}
}

func validateHTTPCheck(f *faults, c *nomad.ServiceCheck, s *nomad.Service) {
	if c.Path == "" {
		f.add("missing path: set path = \"/\" or the path of a health page")
	} else if u, err := url.Parse(variable().ReplaceAllString(c.Path, "x")); err != nil || u.IsAbs() || u.Host != "" {
		f.add("path is %q: use a path without scheme and host, such as /health", c.Path)
	}
	if !strings.Contains(c.Protocol, "${") && !slices.Contains([]string{"", "http", "https"}, c.Protocol) {
		f.add("protocol is %q: use http or https", c.Protocol)
	}
	native := s.Provider != nomad.ServiceProviderConsul // which takes any method
	if native && c.Method != "" && !strings.Contains(c.Method, "${") && !slices.Contains(checkMethods, strings.ToUpper(c.Method)) {
		f.add("method is %q: use one of %s", c.Method, strings.Join(checkMethods, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if !headerName().MatchString(variable().ReplaceAllString(name, "x")) {
			f.add("the header name %q is malformed: use letters, digits and -", name)
		}
	}
}

// scriptCheck checks a check that runs a program in a task. Nomad has such checks with Consul only.
func (r *serviceRules) scriptCheck(f *faults, c *nomad.ServiceCheck, s *nomad.Service, t *nomad.Task) {
	if c.Command == "" {
		f.add("missing command: set the program to run in the task")
	}
	owner := ""
	if t != nil {
		owner = t.Name
	}
	if nomad.CheckTask(s, c, owner) == "" {
		f.add("no task: set task to the name of the task in which the script runs")
	}
	for _, arg := range append([]string{c.Command}, c.Args...) {
		if strings.ContainsRune(arg, 0) {
			f.add("command or args contain a NUL character: remove it")
		}
	}
}

// validateCheckUpdate checks the effects of a check on updates and restarts.
func validateCheckUpdate(f *faults, c *nomad.ServiceCheck, s *nomad.Service) {
	if c.OnUpdate != s.OnUpdate { // that of the service was checked before
		onUpdate(f, c.OnUpdate)
	}
	cr := c.CheckRestart
	if cr == nil {
		return
	}
	if cr.Limit < 0 || cr.Grace < 0 {
		f.add("check_restart has a negative number: limit and grace must be 0 or more")
	}
	switch {
	case cr.Limit == 0:
	case c.OnUpdate == nomad.OnUpdateIgnore:
		f.add("on_update is \"ignore\" and check_restart is set: remove one of them")
	case c.OnUpdate == nomad.OnUpdateIgnoreWarnings && !cr.IgnoreWarnings:
		f.add("on_update is \"ignore_warnings\", but check_restart restarts on warnings: set ignore_warnings = true in it")
	}
}

// validateStatus checks what makes the status of a check out of its results.
func validateStatus(f *faults, c *nomad.ServiceCheck) {
	if !strings.Contains(c.InitialStatus, "${") && !slices.Contains(initialStatuses, c.InitialStatus) {
		f.add("initial_status is %q: use passing, warning or critical, or remove it", c.InitialStatus)
	}
	if len(c.Notes) > maxNotes {
		f.add("notes has %d bytes: the limit is %d", len(c.Notes), maxNotes)
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"success_before_passing", c.SuccessBeforePassing},
		{"failures_before_critical", c.FailuresBeforeCritical},
		{"failures_before_warning", c.FailuresBeforeWarning},
	} {
		switch {
		case field.value < 0:
			f.add("%s is %d: it must be 0 or more", field.name, field.value)
		case field.value > 0 && c.Type == nomad.ServiceCheckScript:
			f.add("%s is set, but each result of a script counts: remove it", field.name)
		}
	}
}

// validateTLS checks the fields of checks over TLS and of gRPC.
func validateTLS(f *faults, c *nomad.ServiceCheck) {
	grpc := c.Type == nomad.ServiceCheckGRPC
	https := c.Type == nomad.ServiceCheckHTTP && (c.Protocol == "https" || strings.Contains(c.Protocol, "${"))
	if c.TLSServerName != "" && !https && !(grpc && c.GRPCUseTLS) {
		f.add("tls_server_name is set, but the check does not use TLS: set protocol = \"https\" or grpc_use_tls = true, or remove it")
	}
	if !grpc && (c.GRPCService != "" || c.GRPCUseTLS) {
		f.add("grpc_service and grpc_use_tls need type = \"grpc\": remove them")
	}
}
