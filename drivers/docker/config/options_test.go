package config

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// refusedOf returns the options of a kind of block that are refused, with a value that is refused.
func refusedOf(kind string) map[string]any {
	if kind == "plugin" {
		return map[string]any{"windows_allow_insecure_container_admin": true, "nvidia_runtime": "other"}
	}
	out := map[string]any{}
	for name := range unserved {
		out[name] = "x"
	}
	return out
}

// Every option of Nomad is one of this driver, or is refused by name and is on the page about what does not exist yet.
func TestOptionsOfNomad(t *testing.T) {
	f, err := os.Open("testdata/options.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page, err := os.ReadFile("../../../website/content/docs/not-yet.md")
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]hcldec.Spec{"plugin": PluginSpec, "task": TaskSpec}
	check := map[string]func(map[string]any) error{"plugin": CheckConfig, "task": func(config map[string]any) error {
		config["image"] = "web:1"
		return CheckTask(config)
	}}
	seen := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		kind, name, ok := strings.Cut(lines.Text(), " ")
		if !ok || kind == "#" {
			continue
		}
		seen[kind]++
		if specs[kind] == nil || !slices.Contains(optionsOf(t, "", specs[kind]), name) {
			t.Errorf("%s: the option %s is neither in the schema nor refused by name", kind, name)
			continue
		}
		value, refused := refusedOf(kind)[name]
		if !refused {
			continue
		}
		if err := check[kind](map[string]any{name: value}); err == nil || !strings.Contains(err.Error(), "not served: "+name) {
			t.Errorf("%s: %s = %v: %v, want a refusal by name", kind, name, value, err)
		}
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("not-yet.md has no %s", name)
		}
	}
	if seen["plugin"] < 30 || seen["task"] < 70 {
		t.Errorf("options.txt has %v", seen)
	}
}

// A network of the daemon is allowed by its driver, or by name.
func TestAllowNetwork(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		name   string
		driver string
		want   bool
	}{
		{nil, "shop", "bridge", true}, {nil, "shop", "overlay", true}, {nil, "shop", "macvlan", false}, {nil, "shop", "ipvlan", false},
		{nil, "shop", "weave", false}, {nil, "shop", "", false}, {nil, "shop", "host", false}, {nil, "shop", "null", false},
		{map[string]any{"allow_networks": []any{"shop"}}, "shop", "macvlan", true},
		{map[string]any{"allow_networks": []any{"shop"}}, "shop2", "bridge", false},
		{map[string]any{"allow_networks": []any{"shop-*"}}, "shop-2", "bridge", true},
		{map[string]any{"allow_networks": []any{}}, "shop", "bridge", false},
		{map[string]any{"allow_networks": []any{"*"}}, "shop", "host", false},
		{map[string]any{"allow_networks": []any{"*"}}, "shop", "null", false},
	} {
		t.Run(fmt.Sprint(c.config, c.name, c.driver), func(t *testing.T) {
			v, err := drivers.Decode(c.config, PluginSpec)
			if err != nil {
				t.Fatal(err)
			}
			p, err := DecodePlugin(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.AllowNetwork(c.name, c.driver); (err == nil) != c.want {
				t.Errorf("AllowNetwork(%q, %q) = %v, want it allowed: %t", c.name, c.driver, err, c.want)
			}
		})
	}
}
