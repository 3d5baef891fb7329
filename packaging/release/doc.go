// Package release tests the build of a release. Two builds from different directories must be equal,
// the checksums must be right, and the SBOM must list the modules of each program.
package release
