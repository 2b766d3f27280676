// Renders the templates of a chart as Helm does: Go's text/template with the functions that our chart uses.
//
// go run render.go CHART < JSON, with {"Values": ..., "Release": {"Namespace": ...}} on standard input.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

type files struct{ root string }

func (f files) Get(name string) string {
	content, err := os.ReadFile(filepath.Join(f.root, name))
	check(err)
	return string(content)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func toJSON(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(true)
	check(encoder.Encode(value))
	return strings.TrimSuffix(out.String(), "\n")
}

var functions = template.FuncMap{
	"toJson":   toJSON,
	"quote":    func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
	"toString": func(value any) string { return fmt.Sprint(value) },
	"upper":    strings.ToUpper,
	"replace":  func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
	"indent": func(spaces int, text string) string {
		pad := strings.Repeat(" ", spaces)
		return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
	},
	"hasKey": func(values map[string]any, key string) bool {
		_, found := values[key]
		return found
	},
	"required": func(message string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	},
}

func main() {
	var data map[string]any
	check(json.NewDecoder(os.Stdin).Decode(&data))
	data["Files"] = files{os.Args[1]}
	names, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*")) // NOTES.txt, too, which is no object
	check(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(err)
		parsed, err := template.New(name).Option("missingkey=zero").Funcs(functions).Parse(string(text))
		check(err)
		var out strings.Builder
		check(parsed.Execute(&out, data))
		if strings.HasSuffix(name, ".yaml") {
			fmt.Printf("---\n%s\n", out.String())
		}
	}
}
