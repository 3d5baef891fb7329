package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the results of testdata/alone.tsv again")

// labeledBlocks are the blocks with a label, and a label for each.
var labeledBlocks = map[string]string{"plugin": "raw_exec", "keyring": "aead", "client.host_volume": "x", "client.host_network": "x",
	"client.log_sink":    "journald",
	"client.fingerprint": "env_aws", "sentinel.import": "x", "audit.sink": "x", "audit.filter": "x"}

// aloneRow is a row of testdata/alone.tsv for one key. It has a value for the key and
// the result of a file with only this key: "accepted", or the error without its place.
type aloneRow struct{ block, key, value, result string }

func readAlone(t *testing.T) (rows []aloneRow) {
	t.Helper()
	text, err := os.ReadFile("testdata/alone.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("not 4 columns: %q", line)
		}
		rows = append(rows, aloneRow{f[0], f[1], f[2], f[3]})
	}
	return rows
}

// steps returns the key and its enclosing blocks. A block with a label gives two elements.
func (r aloneRow) steps() (steps [][]string) {
	if strings.HasPrefix(r.block, "plugin.") { // plugin.docker.config
		words := append(strings.Split(r.block, "."), r.key)
		steps = append(steps, words[:2])
		for _, word := range words[2:] {
			steps = append(steps, []string{word})
		}
		return steps
	}
	path := ""
	for block := range strings.SplitSeq(r.block, ".") {
		if path = strings.TrimPrefix(path+"."+block, "."); path != "" {
			steps = append(steps, labeled(path, block))
		}
	}
	return append(steps, labeled(r.path(), r.key))
}

func labeled(path, key string) []string {
	if label, ok := labeledBlocks[path]; ok {
		return []string{key, label}
	}
	return []string{key}
}

func (r aloneRow) path() string { return strings.TrimPrefix(r.block+"."+r.key, ".") }

// json returns a JSON file with only this key.
func (r aloneRow) json() string {
	text := r.value
	for _, words := range slices.Backward(r.steps()) {
		for _, word := range slices.Backward(words) {
			text = fmt.Sprintf("{%q: %s}", word, text)
		}
	}
	return text
}

// hcl returns an HCL file with only this key.
func (r aloneRow) hcl() string {
	steps := r.steps()
	last := steps[len(steps)-1]
	text := fmt.Sprintf("%q = %s", last[0], strings.ReplaceAll(r.value, ":", " = "))
	if len(last) > 1 { // a block with a label
		text = fmt.Sprintf("%q %q %s", last[0], last[1], r.value)
	}
	for _, words := range slices.Backward(steps[:len(steps)-1]) {
		text = fmt.Sprintf("%s {\n%s\n}", quoted(words), text)
	}
	return text + "\n"
}

func quoted(words []string) string {
	text := ""
	for _, word := range words {
		text += fmt.Sprintf("%q ", word)
	}
	return text
}

// Every key of Nomad's configuration, alone in a file, is accepted and set, or rejected with an
// error that names it. HCL and JSON give the same result.
func TestEveryKeyAlone(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "")
	args := []string{"-server", "-client", "-data-dir", "/var/nomad"}
	base, err := Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	rows := readAlone(t)
	for i, r := range rows {
		path := r.path()
		t.Run(path, func(t *testing.T) {
			for name, text := range map[string]string{"a.hcl": r.hcl(), "a.json": r.json()} {
				s, err := load(t, map[string]string{name: text}, args...)
				got := aloneResult(err)
				if *update {
					rows[i].result = got
				} else if got != r.result {
					t.Errorf("%s: %q, want %q\n%s", name, got, r.result, text)
				}
				switch {
				case strings.Contains(got, "there is no"):
					t.Errorf("%s: the key is not known: %s", name, got)
				case err != nil && !strings.Contains(got, strings.Split(path, ".")[0]):
					t.Errorf("%s: %q does not name the key", name, got)
				case err == nil && r.value != "{}" && reflect.DeepEqual(s.Config, base.Config) && !unchanged[path]:
					t.Errorf("%s: the value is lost\n%s", name, text)
				}
			}
		})
	}
	if *update {
		writeAlone(t, rows)
	}
}

// unchanged lists the keys that the flags of the test set, and a key with a single valid value.
var unchanged = map[string]bool{"data_dir": true, "server.enabled": true, "client.enabled": true, "server.raft_protocol": true}

// aloneResult returns the error without its file and line.
func aloneResult(err error) string {
	if err == nil {
		return "accepted"
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if _, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(line, "/a.") {
			line = rest
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func writeAlone(t *testing.T, rows []aloneRow) {
	t.Helper()
	var out bytes.Buffer
	for _, r := range rows {
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", r.block, r.key, r.value, r.result)
	}
	if err := os.WriteFile("testdata/alone.tsv", out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
