package jobs_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

var updateFields = flag.Bool("update-fields", false, "write the results in testdata/fields.tsv")

// fieldsFile lists the fields of job files of Nomad 2.0, and what becomes of them here:
//
//	effect   the value reaches the job that servers and clients use
//	inert    accepted without effect, in the list of 'job validate -verbose'
//	refused  an error names it or its block, and so does a page of the documentation
//	ignored  not sent to the servers, as in Nomad; a page of the documentation names it
//	fixed    its only valid value is the default
const fieldsFile = "testdata/fields.tsv"

// field is a row of fieldsFile.
type field struct{ block, name, shape, result string }

// samples are values for shapes. One of them is not the default of a field.
var samples = map[string][]string{
	"string": {`"x"`}, "int": {"7"}, "bool": {"true", "false"}, "duration": {`"7s"`}, "list(string)": {`["x"]`}, "list(int)": {"[7]"},
	"map(string)": {`{ k = "x" }`}, "map": {`{ k = "x" }`},
}

// special are the values of fields that do not take any string.
var special = map[string][]string{
	"job.group.service.provider": {`"consul"`}, "job.group.scaling.max": {"8"}, "job.group.scaling.type": {`"horizontal"`},
	"job.group.task.artifact.source": {`"https://nomad.example/x"`},
	"job.group.volume.type":          {`"csi"`}, "job.group.volume.access_mode": {`"multi-node-multi-writer"`},
	"job.group.volume.attachment_mode": {`"block-device"`}, "job.group.service.check.type": {`"grpc"`, `"tcp"`},
}

// required are what blocks always contain.
var required = map[string]string{
	"job.group.scaling": "max = 7", "job.group.task.scaling": "max = 7", "job.group.service": "provider = \"nomad\"",
	"job.group.task.resources": "cores = 3", "job.group.task.resources.numa": "affinity = \"require\"",
	"job.group.task.service": "provider = \"nomad\"", "job.group.task": "driver = \"exec2\"", "job.task": "driver = \"exec2\"",
}

// contents are what the rows of blocks put into them, if an empty block is the default.
var contents = map[string]string{
	"update": "canary = 7", "reschedule": "attempts = 7", "migrate": "max_parallel = 7", "restart": "attempts = 7", "ephemeral_disk": "size = 777",
	"lifecycle": "hook = \"poststart\"", "resources": "cpu = 777", "logs": "max_files = 7", "dispatch_payload": "file = \"x\"",
	"check_restart": "limit = 7",
}

// readFields reads fieldsFile.
func readFields(t *testing.T) (out []field) {
	t.Helper()
	text, err := os.ReadFile(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("%s: the line %q does not have four columns", fieldsFile, line)
		}
		out = append(out, field{f[0], f[1], f[2], f[3]})
	}
	return out
}

// TestJobFields checks each field of job files.
func TestJobFields(t *testing.T) {
	rows := readFields(t)
	labelled := map[string]bool{"job.group": true, "job.group.task": true}
	for _, f := range rows {
		if f.shape == "block with label" {
			labelled[f.block+"."+f.name] = true
		}
	}
	var out strings.Builder
	out.WriteString("# block\tname\tshape\tresult: effect, inert, refused, ignored, fixed\n")
	for _, f := range rows {
		got, detail := resultOf(t, f, labelled)
		if got == "dropped" && (f.result == "ignored" || f.result == "fixed") {
			got = f.result
		}
		if got != f.result && !*updateFields {
			t.Errorf("%s.%s: %s (%s), want %s", f.block, f.name, got, detail, f.result)
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", f.block, f.name, f.shape, got)
	}
	if *updateFields {
		if err := os.WriteFile(fieldsFile, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJobFields_Documented checks that pages name the fields that are refused or ignored, or the block of such a field.
func TestJobFields_Documented(t *testing.T) {
	refused, ignored := section(t, "not-yet.md", "## In a job"), section(t, "jobspec/refused.md", "These are ignored")
	for _, f := range readFields(t) {
		parts := strings.Split(f.block+"."+f.name, ".")
		switch f.result {
		case "refused":
			if !slices.ContainsFunc(parts[2:], func(p string) bool { return named(refused, p) }) && (parts[0] == "config" || !named(refused, parts[1])) {
				t.Errorf("not-yet.md does not name %s.%s", f.block, f.name)
			}
		case "ignored":
			if !named(ignored, f.name) {
				t.Errorf("refused.md does not name %s.%s", f.block, f.name)
			}
		}
	}
}

// named reports whether a text has a field, alone or with a value.
func named(text, field string) bool {
	return strings.Contains(text, "`"+field+"`") || strings.Contains(text, "`"+field+" = ")
}

// section returns a part of a page of the documentation, up to the next heading.
func section(t *testing.T, page, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../website/content/docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s lacks %q", page, begin)
	}
	out, _, _ := strings.Cut(after, "\n## ")
	// A first column without backquotes is the place of the refused parts.
	var b strings.Builder
	for line := range strings.Lines(out) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && !strings.Contains(cells[1], "`") {
			line = cells[2]
		}
		b.WriteString(line)
	}
	return b.String()
}

// resultOf returns what becomes of a field.
func resultOf(t *testing.T, f field, labelled map[string]bool) (result, detail string) {
	if driver, ok := strings.CutPrefix(f.block, "config."); ok {
		return optionResult(t, driver, f.name)
	}
	base := canonical(t, jobWith(f.block, "", labelled))
	result = "dropped"
	for _, text := range texts(f) {
		job := canonical(t, jobWith(f.block, text, labelled))
		if texts := refusals(job); len(texts) > 0 {
			return "refused", strings.Join(texts, ", ")
		}
		if names := slices.DeleteFunc(inertNames(job), func(n string) bool { return slices.Contains(inertNames(base), n) }); len(names) > 0 {
			return "inert", strings.Join(names, ", ")
		}
		if encodedJob(t, job) != encodedJob(t, base) {
			result = "effect"
		}
	}
	return result, ""
}

// texts returns the field with several values.
func texts(f field) (out []string) {
	switch f.shape {
	case "block":
		return []string{f.name + " {\n" + required[f.block+"."+f.name] + "\n" + contents[f.name] + "\n}"}
	case "block with label":
		return []string{f.name + " \"cpu\" {\n" + required[f.block+"."+f.name] + "\n}"}
	case "block of string", "block of any":
		return []string{f.name + " {\nk = \"x\"\n}"}
	case "block of list(string)":
		return []string{f.name + " {\nk = [\"x\"]\n}"}
	}
	values := samples[f.shape]
	if v := special[f.block+"."+f.name]; v != nil {
		values = v
	}
	for _, v := range values {
		out = append(out, f.name+" = "+v)
	}
	return out
}

// jobWith returns a job file with a text in a block. Every job has a group with a task.
func jobWith(block, text string, labelled map[string]bool) string {
	const task = "task \"t\" {\ndriver = \"exec2\"\n}"
	parts := strings.Split(block, ".")
	for i := len(parts) - 1; i > 0; i-- {
		name, path, label := parts[i], strings.Join(parts[:i+1], "."), ""
		if key, _, _ := strings.Cut(required[path], " "); !strings.HasPrefix(text, key+" =") {
			text = required[path] + "\n" + text
		}
		switch {
		case path == "job.group" && !strings.HasPrefix(block, "job.group.task"):
			text += "\n" + task
		case path == "job.group.service": // of which check_restart has an effect
			text += "\ncheck {\nname = \"c\"\ntype = \"tcp\"\n}"
		}
		if labelled[path] {
			label = " \"cpu\""
		}
		text = name + label + " {\n" + text + "\n}"
	}
	if len(parts) == 1 || parts[1] != "group" {
		text += "\ngroup \"g\" {\n" + task + "\n}"
	}
	return "job \"j\" {\n" + text + "\n}\n"
}

// canonical returns the job of a file as the servers store it.
func canonical(t *testing.T, text string) *nomad.Job {
	t.Helper()
	parsed, err := jobspec.Parse(jobspec.Config{Filename: "fields.nomad.hcl", Source: []byte(text), Strict: true})
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
		return &nomad.Job{}
	}
	job, err := httpapi.CanonicalJob(parsed)
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
		return &nomad.Job{}
	}
	return job
}

// refusals returns the errors about what this version does not have, with servers that have Vault and no Consul.
func refusals(j *nomad.Job) (out []string) {
	withVault := vault.Clusters{vault.DefaultCluster: {Enabled: true}}
	err := errors.Join(slices.Concat(jobrules.NeedsConsul(j), jobrules.NeedsVault(j, withVault), []error{jobrules.Validate(j)})...)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		for _, part := range []string{"not support", "feature of Consul", "requires Nomad Enterprise", "not enabled but used", "deprecated"} {
			if strings.Contains(line, part) {
				out = append(out, line)
				break
			}
		}
	}
	return out
}

func inertNames(j *nomad.Job) (out []string) {
	for _, i := range jobrules.WithoutEffect(j) {
		out = append(out, i.Name)
	}
	return out
}

func encodedJob(t *testing.T, j *nomad.Job) string {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// optionResult returns what becomes of an option of a driver: effect if the schema of its tasks has it, and refused if its
// checks do not serve it.
func optionResult(t *testing.T, driver, name string) (result, detail string) {
	t.Helper()
	path := strings.Split(driver, ".")
	kind := drivers.Table()[path[0]]
	if kind == nil {
		t.Fatalf("no driver %s", path[0])
	}
	spec := kind.TaskSpec
	for _, part := range append(path[1:], name) {
		if spec = inner(spec, part); spec == nil {
			return "dropped", "not in the schema"
		}
	}
	if len(path) == 1 && kind.CheckTask != nil {
		err := kind.CheckTask("", map[string]any{"image": "x", "command": "/x", name: "x"})
		if err != nil && strings.Contains(err.Error(), "not served: "+name) {
			return "refused", err.Error()
		}
	}
	return "effect", ""
}

// inner returns the attribute or block of a schema, or nil.
func inner(spec hcldec.Spec, name string) hcldec.Spec {
	switch s := spec.(type) {
	case hcldec.ObjectSpec:
		return s[name]
	case *hcldec.BlockSpec:
		return inner(s.Nested, name)
	case *hcldec.BlockListSpec:
		return inner(s.Nested, name)
	case *hcldec.DefaultSpec:
		return inner(s.Primary, name)
	}
	return nil
}
