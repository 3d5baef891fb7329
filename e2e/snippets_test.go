package e2e

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// hclSnippet matches a fenced block of HCL. The line before it may say why it cannot be checked:
// <!-- not run: REASON -->
var hclSnippet = regexp.MustCompile("(?ms)(?:^ *<!-- not run: ([^\n]+) -->\n)?^( *)```hcl\n(.*?)\n *```$")

// snippet is a block of HCL on a page.
type snippet struct {
	place string // page and line
	page  string
	text  string
}

// TestSnippets checks each HCL block of the pages: job files and parts of them with the checks of
// "nomad job validate", configuration with the parser of the agent, policies with the parser of package acl.
func TestSnippets(t *testing.T) {
	found := map[string]int{}
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, at := range hclSnippet.FindAllStringSubmatchIndex(text, -1) {
			if at[2] >= 0 {
				continue // marked
			}
			s := snippet{page: page, text: text[at[6]:at[7]]}
			s.place = fmt.Sprintf("%s:%d", page, strings.Count(text[:at[6]], "\n"))
			language, err := s.check(t)
			if err != nil {
				t.Errorf("%s: %v\n%s", s.place, err, s.text)
			}
			found[language]++
		}
	}
	for language, least := range map[string]int{"job": 30, "agent": 10, "policy": 3, "other": 4} {
		if found[language] < least {
			t.Errorf("%d snippets of the language %q were found, want at least %d", found[language], language, least)
		}
	}
}

// pages returns the files whose snippets are checked.
func pages(t *testing.T) []string {
	t.Helper()
	files := []string{"../README.md"}
	for _, pattern := range []string{"../website/content/docs/*.md", "../website/content/docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// check reports what is wrong with a snippet, and its language.
func (s snippet) check(t *testing.T) (string, error) {
	t.Helper()
	names, err := s.names()
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("the snippet is empty")
	}
	if level, ok := jobLevels[names[0]]; ok {
		return "job", checkJob(s.inJob(level, names), s.missing())
	}
	switch languages[names[0]] {
	case "agent":
		return "agent", checkAgent(t, s.text)
	case "policy":
		_, err := acl.Parse(s.text)
		return "policy", err
	case "other":
		return "other", nil
	}
	return "", fmt.Errorf("%q is not in jobLevels or languages: add it, or mark the snippet with <!-- not run: REASON -->", names[0])
}

// names returns the blocks and arguments at the top level of the snippet in the order of the text.
func (s snippet) names() ([]string, error) {
	body, err := s.body()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, b := range body.Blocks {
		if _, ok := at[b.Type]; !ok {
			at[b.Type] = b.TypeRange.Start.Byte
		}
	}
	for name, a := range body.Attributes {
		at[name] = a.NameRange.Start.Byte
	}
	names := make([]string, 0, len(at))
	for name := range at {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(at[a], at[b]) })
	return names, nil
}

func (s snippet) body() (*hclsyntax.Body, error) {
	f, diags := hclsyntax.ParseConfig([]byte(s.text), s.place, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	return f.Body.(*hclsyntax.Body), nil
}

// missing returns a value for each variable without default.
func (s snippet) missing() []string {
	body, err := s.body()
	if err != nil {
		return nil
	}
	var out []string
	for _, b := range body.Blocks {
		if b.Type == "variable" && b.Body.Attributes["default"] == nil {
			out = append(out, b.Labels[0]+"=1")
		}
	}
	return out
}

// jobLevels are the blocks and arguments of job files, and in what a snippet that begins with one is
// wrapped. Blocks that may be at several levels are at the outermost that takes them.
var jobLevels = map[string]string{
	"job": "file", "variable": "file", "variables": "file", "locals": "file",
	"group": "job", "constraint": "job", "affinity": "job", "spread": "job", "update": "job", "reschedule": "job", "migrate": "job",
	"parameterized": "job", "meta": "job", "ui": "job", "type": "job", "priority": "job",
	"count": "group", "network": "group", "volume": "group", "ephemeral_disk": "group", "restart": "group", "task": "group",
	"driver": "task", "config": "task", "env": "task", "identity": "task", "resources": "task", "logs": "task", "lifecycle": "task",
	"dispatch_payload": "task", "user": "task", "leader": "task", "kill_signal": "task", "kill_timeout": "task",
}

// languages are the first names of snippets that are not of a job file. Only the syntax of "other" is
// checked: specifications of namespaces, node pools and quotas, and the configuration of the snapshot agent.
var languages = map[string]string{
	"acl": "agent", "audit": "agent", "autopilot": "agent", "bind_addr": "agent", "client": "agent", "data_dir": "agent", "plugin": "agent",
	"ports": "agent", "region": "agent", "server": "agent", "telemetry": "agent", "tls": "agent", "log_file": "agent", "keyring": "agent",
	"namespace": "policy", "host_volume": "policy", "node": "policy", "operator": "policy", "quota": "policy",
	"name": "other", "node_pool": "other", "nomad": "other", "required_extra_claims": "other", "limit": "other",
}

// inJob wraps a snippet of a level in the job around it.
func (s snippet) inJob(level string, names []string) string {
	text, has := s.text, func(list ...string) bool {
		return slices.ContainsFunc(list, func(name string) bool { return slices.Contains(names, name) })
	}
	driver, config := s.driver()
	task := "task \"t\" {\n" + driver + config + "}\n"
	switch level {
	case "task":
		body := text + "\n"
		if !has("driver") {
			body = driver + body
		}
		if !has("config") {
			body += config
		}
		return "job \"j\" {\ngroup \"g\" {\ntask \"t\" {\n" + body + "}\n}\n}\n"
	case "group":
		if !has("task") {
			text += "\n" + task
		}
		return "job \"j\" {\ngroup \"g\" {\n" + text + "\n}\n}\n"
	case "job":
		if !has("group", "task") {
			text += "\ngroup \"g\" {\n" + task + "}\n"
		}
		if has("parameterized") && !has("type") {
			text += "\ntype = \"batch\"\n"
		}
		return "job \"j\" {\n" + text + "\n}\n"
	}
	if !has("job") {
		text += "\njob \"j\" {\ngroup \"g\" {\n" + task + "}\n}\n"
	}
	return text
}

// driver returns the driver that the page is about, exec2 for most, and the least config block for it.
func (s snippet) driver() (driver, config string) {
	name, config := "exec2", "config {\ncommand = \"/bin/true\"\n}\n"
	switch filepath.Base(s.page) {
	case "raw_exec.md":
		name = "raw_exec"
	case "mock_driver.md":
		name, config = "mock_driver", "config {}\n"
	}
	return fmt.Sprintf("driver = %q\n", name), config
}

// checkJob checks a job file as "nomad job validate" does, and the config blocks that servers leave to nodes.
func checkJob(text string, vars []string) error {
	job, err := jobspec.Parse(jobspec.Config{Filename: "snippet.nomad.hcl", Source: []byte(text), Vars: vars})
	if err != nil {
		return err
	}
	canonical, err := httpapi.CanonicalJob(job)
	if err != nil {
		return err
	}
	if faults, _ := endpoint.CheckJob(canonical); len(faults) > 0 {
		return fmt.Errorf("%s", strings.Join(faults, "\n"))
	}
	return checkDrivers(job)
}

func checkDrivers(job *api.Job) error {
	quiet := slog.New(slog.DiscardHandler)
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			var err error
			switch t.Driver {
			case "exec2": // checked by the servers
			case "raw_exec":
				_, err = drivers.Decode(t.Config, rawexec.New(quiet, nil).TaskSpec())
			case "mock_driver":
				_, err = drivers.Decode(t.Config, mock.New(quiet).TaskSpec())
			default:
				err = fmt.Errorf("driver %q does not exist", t.Driver)
			}
			if err != nil {
				return fmt.Errorf("task %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// checkAgent parses the configuration of an agent. The files that it names need not exist.
func checkAgent(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return agent.Default().Load(file)
}

// TestSnippetFaults checks that a snippet with a fault is found, at each level and in each language.
func TestSnippetFaults(t *testing.T) {
	for name, tc := range map[string]struct{ page, text, want string }{
		"syntax":            {"x.md", "network {", "Unclosed configuration block"},
		"unknown name":      {"x.md", "wibble {}", `"wibble" is not in jobLevels`},
		"unknown argument":  {"x.md", "network {\n  ports = 5\n}", "Unsupported argument"},
		"refused block":     {"x.md", "job \"x\" {\n  periodic {\n    cron = \"@daily\"\n  }\n}", "periodic blocks are not supported"},
		"no group":          {"x.md", "job \"x\" {}", "it has no group"},
		"bad value":         {"x.md", "restart {\n  mode = \"never\"\n}", `mode of restart is "never"`},
		"config of exec2":   {"x.md", "config {\n  comand = \"x\"\n}", `unknown argument "comand"`},
		"config of mock":    {"mock_driver.md", "config {\n  command = \"x\"\n}", `"command"`},
		"config of raw":     {"raw_exec.md", "config {\n  run_for = \"x\"\n}", `"run_for"`},
		"missing command":   {"raw_exec.md", "config {\n  args = []\n}", "command"},
		"agent":             {"x.md", "server {\n  enabeld = true\n}", "enabeld"},
		"policy":            {"x.md", "namespace \"x\" {\n  policy = \"wirte\"\n}", "wirte"},
		"driver":            {"x.md", "driver = \"exec3\"", `driver "exec3" does not exist`},
		"undeclared in job": {"x.md", "job \"x\" {\n  group \"g\" {\n    count = var.n\n  }\n}", "var"},
	} {
		t.Run(name, func(t *testing.T) {
			s := snippet{page: tc.page, place: tc.page, text: tc.text}
			if _, err := s.check(t); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
	if m := hclSnippet.FindStringSubmatch("<!-- not run: it needs a GPU -->\n```hcl\nx\n```\n"); m == nil || m[1] != "it needs a GPU" {
		t.Errorf("the mark of a snippet was not found: %q", m)
	}
}
