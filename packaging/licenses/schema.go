package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The library of CycloneDX contains the schema of an SBOM and those that it refers to.
const (
	library   = "github.com/CycloneDX/cyclonedx-go"
	schemaURL = "http://cyclonedx.org/schema/"
	schema    = "bom-1.6.schema.json"
)

// referred are the schemas that the schema refers to, with their files in the library.
var referred = map[string]string{"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"}

// compiled reads the schema once.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	dir, err := exec.Command(goCommand(), "list", "-m", "-f={{.Dir}}", library).Output()
	if err != nil {
		return nil, fmt.Errorf("find the module %s: %w", library, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	add := func(name, file string) error {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", file))
		if err != nil {
			return err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("read the schema %s: %w", file, err)
		}
		return c.AddResource(schemaURL+name, doc)
	}
	for name, file := range referred {
		if err := add(name, file); err != nil {
			return nil, err
		}
	}
	if err := add(schema, schema); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL + schema)
})

// validate checks an SBOM by the schema of its version of CycloneDX.
func validate(bom []byte) error {
	s, err := compiled()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bom))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}
