package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/open-nomad/open-nomad/internal/version"
)

// specification is the version of CycloneDX that a release has.
const specification = cyclonedx.SpecVersion1_6

// completeFile rewrites an SBOM with the licences of its components, and checks it by the schema.
func completeFile(path string, modules, libraries []component) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return fmt.Errorf("read the SBOM %s: %w", path, err)
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Components == nil {
		return fmt.Errorf("read the SBOM %s: it has no program or no components", path)
	}
	if !hasTag(&bom, "companion") {
		libraries = nil // only nomad has the web UI
	}
	if err := complete(&bom, modules, libraries); err != nil {
		return fmt.Errorf("complete the SBOM %s: %w", path, err)
	}
	var out bytes.Buffer
	enc := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := enc.EncodeVersion(&bom, specification); err != nil {
		return fmt.Errorf("write the SBOM %s: %w", path, err)
	}
	if err := validate(out.Bytes()); err != nil {
		return fmt.Errorf("check the SBOM %s: %w", path, err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// hasTag reports whether the program of an SBOM was built with a tag.
func hasTag(bom *cyclonedx.BOM, tag string) bool {
	if bom.Metadata.Properties == nil {
		return false
	}
	for _, p := range *bom.Metadata.Properties {
		if p.Name == "cdx:gomod:build:tag" && p.Value == tag {
			return true
		}
	}
	return false
}

// complete sets the version and the licence of the program and the licences of its modules, and adds the
// libraries of the web UI.
func complete(bom *cyclonedx.BOM, modules, libraries []component) error {
	program := bom.Metadata.Component
	program.Version, program.Licenses = version.Number, licences([]string{"MPL-2.0"})
	byName := map[string]component{}
	for _, m := range modules {
		byName[m.name+"@"+strings.TrimPrefix(m.version, "go")] = m
	}
	for i := range *bom.Components {
		c := &(*bom.Components)[i]
		m, ok := byName[c.Name+"@"+strings.TrimPrefix(c.Version, "go")]
		if !ok {
			return fmt.Errorf("module %s@%s is not in the list of the programs in packaging/licenses/modules.go", c.Name, c.Version)
		}
		c.Licenses = licences(m.licences())
		if _, platform, ok := strings.Cut(program.PackageURL, "?"); ok && c.Name == "std" {
			name, _, _ := strings.Cut(c.PackageURL, "?") // cyclonedx-gomod writes the platform of the build
			c.PackageURL = name + "?" + platform
		}
	}
	for _, l := range libraries {
		c := webComponent(l)
		*bom.Components = append(*bom.Components, c)
		depend(bom, program.BOMRef, c.BOMRef)
	}
	return nil
}

func licences(ids []string) *cyclonedx.Licenses {
	var list cyclonedx.Licenses
	for _, id := range ids {
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &list
}

// webComponent describes a library of the web UI with the files of the tree that come from it.
func webComponent(l component) cyclonedx.Component {
	purl := "pkg:npm/" + strings.Replace(l.name, "@", url.QueryEscape("@"), 1) + "@" + l.version
	c := cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: l.name, Version: l.version,
		Scope: cyclonedx.ScopeRequired, PackageURL: purl, Licenses: licences(l.licences())}
	var files []cyclonedx.Component
	for _, s := range l.scripts {
		files = append(files, cyclonedx.Component{BOMRef: purl + "#" + s.path, Type: cyclonedx.ComponentTypeFile, Name: s.path,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: s.sum}}})
	}
	c.Components = &files
	return c
}

// depend adds a dependency of the program.
func depend(bom *cyclonedx.BOM, program, on string) {
	if bom.Dependencies == nil {
		bom.Dependencies = &[]cyclonedx.Dependency{}
	}
	*bom.Dependencies = append(*bom.Dependencies, cyclonedx.Dependency{Ref: on})
	for i := range *bom.Dependencies {
		d := &(*bom.Dependencies)[i]
		if d.Ref != program {
			continue
		}
		if d.Dependencies == nil {
			d.Dependencies = &[]string{}
		}
		*d.Dependencies = append(*d.Dependencies, on)
		return
	}
	*bom.Dependencies = append(*bom.Dependencies, cyclonedx.Dependency{Ref: program, Dependencies: &[]string{on}})
}
