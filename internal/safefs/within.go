package safefs

import "strings"

// Within reports whether path is dir or below it, by their names, which must be clean. Nothing is
// within the empty directory.
func Within(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}
