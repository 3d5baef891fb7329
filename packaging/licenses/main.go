// Command licenses writes the licences and SBOM entries of the libraries in the programs of a release. The
// libraries are the Go modules with a package in one of the programs, for every architecture. To these it
// adds Go's standard library and the libraries of the web UI (ui/vendor.lock).
//
//	licenses write DIR     writes THIRD-PARTY-LICENSES, the texts, and copyright, Debian's file of them
//	licenses sbom FILE...  adds the licences, and to nomad's the libraries of the web UI, to SBOMs
//
// It works in the root of the tree, and reads the modules from Go's module cache. A library without a
// licence, or with one that known.go does not list, is an error: such a library may not be shipped.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// architectures are those of a release. The texts are of all of them, so that each archive has the same.
var architectures = []string{"amd64", "arm64"}

func main() {
	if len(os.Args) < 3 || os.Args[1] != "sbom" && (os.Args[1] != "write" || len(os.Args) != 3) {
		fmt.Fprintln(os.Stderr, "usage: licenses write DIRECTORY | licenses sbom FILE...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(command string, paths []string) error {
	modules, err := modules(architectures)
	if err != nil {
		return err
	}
	libraries, err := webLibraries(".")
	if err != nil {
		return err
	}
	if command == "write" {
		return write(paths[0], append(modules, libraries...))
	}
	for _, path := range paths {
		if err := completeFile(path, modules, libraries); err != nil {
			return err
		}
	}
	return nil
}

// write writes the files that packages contain.
func write(dir string, all []component) error {
	head, err := os.ReadFile("packaging/deb/copyright")
	if err != nil {
		return fmt.Errorf("read the head of Debian's copyright file: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "THIRD-PARTY-LICENSES"), []byte(texts(all)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "copyright"), []byte(string(head)+stanzas(all)), 0o644)
}
