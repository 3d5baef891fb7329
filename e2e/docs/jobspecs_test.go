package docs_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	kinds "github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// jobSnippet is a block of HCL on a page.
type jobSnippet struct {
	place string // page and line
	page  string
	text  string
}

// TestJobSnippets checks the job files and parts of job files on all pages like "nomad job
// validate". The pages of the jobspec have no other HCL; other HCL on other pages is skipped.
func TestJobSnippets(t *testing.T) {
	checked := 0
	for _, p := range append(pages(t), rootPages(t)...) {
		for _, b := range p.blocks {
			if b.lang != "hcl" || b.skipped() {
				continue
			}
			s := jobSnippet{page: p.name, text: b.text, place: fmt.Sprintf("%s:%d", p.name, b.line)}
			ok, err := s.check()
			if err != nil {
				t.Errorf("%s: %v\n%s", s.place, err, s.text)
			}
			if ok {
				checked++
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d snippets were checked, want at least 40", checked)
	}
}

// check returns the error of a snippet. It reports whether the snippet belongs to a job file.
func (s jobSnippet) check() (bool, error) {
	names, err := s.names()
	if err != nil {
		return false, err
	}
	if len(names) > 0 {
		if level, ok := jobLevels[names[0]]; ok {
			return true, checkJob(s.inJob(level, names), s.missing())
		}
	}
	if filepath.Base(filepath.Dir(s.page)) == "jobspec" {
		return false, fmt.Errorf("the snippet begins with none of jobLevels: add its name, or mark it with <!-- not run: REASON -->")
	}
	return false, nil
}

// names returns the blocks and arguments at the top level of the snippet in order.
func (s jobSnippet) names() ([]string, error) {
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

func (s jobSnippet) body() (*hclsyntax.Body, error) {
	f, diags := hclsyntax.ParseConfig([]byte(s.text), s.place, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	return f.Body.(*hclsyntax.Body), nil
}

// missing returns a value for each variable without a default.
func (s jobSnippet) missing() []string {
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

// jobLevels maps the blocks and arguments of job files to the wrapper of a snippet that begins with
// one. Blocks that may be at several levels have the outermost one.
var jobLevels = map[string]string{
	"job": "file", "variable": "file", "variables": "file", "locals": "file",
	"group": "job", "constraint": "job", "affinity": "job", "spread": "job", "update": "job", "reschedule": "job", "migrate": "job",
	"parameterized": "job", "meta": "job", "ui": "job", "type": "job", "priority": "job",
	"count": "group", "network": "group", "volume": "group", "ephemeral_disk": "group", "restart": "group", "task": "group",
	"driver": "task", "config": "task", "env": "task", "identity": "task", "resources": "task", "logs": "task", "lifecycle": "task",
	"artifact": "task", "template": "task", "dispatch_payload": "task", "user": "task", "leader": "task", "schedule": "task",
	"spiffe": "task", "kill_signal": "task", "kill_timeout": "task", "secret": "task",
}

// inJob wraps a snippet in the job for its level.
func (s jobSnippet) inJob(level string, names []string) string {
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

// driver returns the driver of the page, exec2 for most, and its minimal config block.
func (s jobSnippet) driver() (driver, config string) {
	name, config := "exec2", "config {\ncommand = \"/bin/true\"\n}\n"
	switch filepath.Base(s.page) {
	case "raw_exec.md", "exec.md":
		name = strings.TrimSuffix(filepath.Base(s.page), ".md")
	case "java.md":
		name, config = "java", "config {\njar_path = \"x.jar\"\n}\n"
	case "qemu.md":
		name, config = "qemu", "config {\nimage_path = \"x.img\"\n}\n"
	case "mock_driver.md":
		name, config = "mock_driver", "config {}\n"
	}
	return fmt.Sprintf("driver = %q\n", name), config
}

// checkJob checks a job file like "nomad job validate", and the config blocks that servers leave to
// nodes.
func checkJob(text string, vars []string) error {
	job, err := jobspec.Parse(jobspec.Config{Filename: "snippet.nomad.hcl", Source: []byte(text), Vars: vars})
	if err != nil {
		return err
	}
	canonical, err := httpapi.CanonicalJob(job)
	if err != nil {
		return err
	}
	table := kinds.Table()
	table["exec2-open"] = table["exec2"] // the instance in configuration.md
	if faults, _ := admission.Check(canonical, table); len(faults) > 0 {
		return fmt.Errorf("%s", strings.Join(faults, "\n"))
	}
	return checkDrivers(job, table)
}

func checkDrivers(job *api.Job, table map[string]*drivers.Kind) error {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			k, err := table[t.Driver], error(nil)
			switch {
			case k == nil:
				err = fmt.Errorf("driver %q does not exist", t.Driver)
			case k.CheckTask == nil: // not checked by the servers
				_, err = drivers.Decode(t.Config, k.TaskSpec)
			}
			if err != nil {
				return fmt.Errorf("task %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// TestJobSnippetFaults checks that a fault in a snippet is found, at each level.
func TestJobSnippetFaults(t *testing.T) {
	for name, tc := range map[string]struct{ page, text, want string }{
		"syntax":            {"x.md", "network {", "Unclosed configuration block"},
		"unknown name":      {"jobspec/x.md", "wibble {}", "none of jobLevels"},
		"unknown argument":  {"x.md", "network {\n  ports = 5\n}", "Unsupported argument"},
		"refused block":     {"x.md", "job \"x\" {\n  multiregion {\n    region \"a\" {}\n  }\n}", "multiregion"},
		"no group":          {"x.md", "job \"x\" {}", "group"},
		"bad value":         {"x.md", "restart {\n  mode = \"never\"\n}", `"never"`},
		"config of exec2":   {"x.md", "config {\n  comand = \"x\"\n}", `"comand"`},
		"config of mock":    {"mock_driver.md", "config {\n  command = \"x\"\n}", `"command"`},
		"config of raw":     {"raw_exec.md", "config {\n  run_for = \"x\"\n}", `"run_for"`},
		"missing command":   {"raw_exec.md", "config {\n  args = []\n}", "command"},
		"driver":            {"x.md", "driver = \"exec3\"", `driver "exec3" does not exist`},
		"undeclared in job": {"x.md", "job \"x\" {\n  group \"g\" {\n    count = var.n\n  }\n}", "var"},
	} {
		t.Run(name, func(t *testing.T) {
			s := jobSnippet{page: tc.page, place: tc.page, text: tc.text}
			if _, err := s.check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
	all := blocksOf("<!-- not run: it needs a GPU -->\n```hcl\nx\n```\n")
	if len(all) != 1 || !all[0].skipped() || all[0].note != "not run: it needs a GPU" {
		t.Errorf("the mark of a snippet was not found: %+v", all)
	}
}
