// Package imagearchive checks an archive of a container image before a daemon loads it, and copies it into one form.
//
//	archive ──decompress──▶ tar ──entries──▶ private copy ──manifest.json──▶ Image
//
// An archive can name several images, move tags of others, or name layers that it does not contain, which a daemon may
// have from another source. Daemons of different versions read different files of it. So the package does not judge the
// archive for another reader: it writes a new archive with a single manifest.json, which it has made from what it has
// checked. The copy has no other file that names an image. It is written to a file that only the agent can access, so
// that a task cannot change it after the check.
//
// The package reads the archives of "docker save", of any version since manifest.json exists, and image layouts of OCI
// with one image. They can be compressed with gzip, bzip2, xz or zstd. It starts the program xz for xz, with a limit of
// its memory, and no goroutine that outlives a call.
package imagearchive
