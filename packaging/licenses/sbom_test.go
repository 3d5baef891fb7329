package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// bare writes an SBOM of a program as cyclonedx-gomod does, without licences.
func bare(t *testing.T, tag string, modules ...component) string {
	t.Helper()
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{BOMRef: "program", Type: cyclonedx.ComponentTypeApplication,
		Name: "nomad", PackageURL: "pkg:golang/nomad?goarch=arm64"},
		Properties: &[]cyclonedx.Property{{Name: "cdx:gomod:build:tag", Value: tag}}}
	var list []cyclonedx.Component
	for _, m := range modules {
		list = append(list, cyclonedx.Component{BOMRef: m.name, Type: cyclonedx.ComponentTypeLibrary, Name: m.name, Version: m.version,
			PackageURL: "pkg:golang/" + m.name + "?goarch=amd64"})
	}
	bom.Components = &list
	text, err := json.Marshal(bom)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nomad.cdx.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSBOM(t *testing.T) {
	inTree(t)
	modules, err := modules(architectures)
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := webLibraries(".")
	if err != nil {
		t.Fatal(err)
	}
	for tag, more := range map[string]int{"companion": len(libraries), "disable_grpc_modules": 0} {
		path := bare(t, tag, modules...)
		if err := completeFile(path, modules, libraries); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var bom cyclonedx.BOM
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		if got := len(*bom.Components); got != len(modules)+more {
			t.Errorf("%s: %d components, want %d", tag, got, len(modules)+more)
		}
		for _, c := range *bom.Components {
			if c.Licenses == nil || (*c.Licenses)[0].License.ID == "" {
				t.Errorf("%s: %s has no licence", tag, c.Name)
			}
			if c.Name == "std" && c.PackageURL != "pkg:golang/std?goarch=arm64" {
				t.Errorf("%s: std is %s, and the program of arm64", tag, c.PackageURL)
			}
			if strings.HasPrefix(c.PackageURL, "pkg:npm/") && (*(*c.Components)[0].Hashes)[0].Value == "" {
				t.Errorf("%s: %s has no hash", tag, c.Name)
			}
		}
	}
}

func TestSBOMRefused(t *testing.T) {
	inTree(t)
	m := component{name: "example.com/m", version: "v1.0.0", texts: []text{{licences: []string{"MIT"}}}}
	if err := completeFile(bare(t, "", m), nil, nil); err == nil ||
		!strings.Contains(err.Error(), "module example.com/m@v1.0.0 is not in the list") {
		t.Errorf("a module of no program: %v", err)
	}
	m.texts[0].licences = []string{"no licence of SPDX"}
	if err := completeFile(bare(t, "", m), []component{m}, nil); err == nil || !strings.Contains(err.Error(), "/components/0/licenses") {
		t.Errorf("an SBOM that the schema refuses: %v", err)
	}
	if err := validate([]byte(`{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "library"}]}`)); err == nil ||
		!strings.Contains(err.Error(), "name") {
		t.Errorf("a component without a name: %v", err)
	}
}
