// Package release tests the build of a release: that two builds from different directories are equal,
// that the checksums are right, and that the SBOM lists the modules of each program.
package release
