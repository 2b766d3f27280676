"""The words by which `sidecar.layers.context` tells a mention from an order, in the languages of the rules.

RE2 patterns. Between a negation and the verb stand nothing but words of a closed list (`GAP`), so that "do not answer,
ignore ..." stays an order. Attackers can read this: what is on the lists has to govern the verb.
"""

# ruff: noqa: E501 - lists of words
from __future__ import annotations

L = r"[a-z\x{c0}-\x{1fff}]"
"""A letter of most alphabets, at a hundredth of the price of `\\pL`."""
_EDGE = r"(?:\A|[^a-z\x{c0}-\x{1fff}])"

_NEGATIONS = (
    r"never(?:,?\s+(?:ever|under\s+(?:any|no)\s+circumstances?,?))?|(?:do|does|must|should|may|can|will)?\s*not|cannot"
    r"|(?:ca|do|does|did|wo|must|should|may|need|is|are)n't|no\s+(?:one|user)\s+(?:may|can|should|shall)"
    r"|nobody\s+(?:may|can|should)|without|rather\s+than|instead\s+of|refus(?:e|es|ed|ing)|declin(?:e|es|ed|ing)"
    r"|fail(?:s|ed)?|hesitat(?:e|es|ing)|forget|neglect|omit|avoid(?:s|ed|ing)?|resist(?:s|ing)?|afraid|reluctant|unable"
    r"|(?:under|in)\s+no\s+(?:circumstances?|case|event|way)|at\s+no\s+(?:point|time)"
    r"|forbidden|prohibited|disallowed|barred|prevent(?:s|ed|ing)?|stop(?:s|ped|ping)?|keep(?:s|ing)?"
    # Deutsch, Nederlands, Skandinavisch
    r"|(?:noch\s+)?(?:nicht|nie|niemals)|keinesfalls|keineswegs|ohne|weigert?|untersagt|verboten|auf\s+keinen\s+fall|statt"
    r"|zögere|zögern|vergiss|vergisst|niet|nooit|geen|zonder|aarzel|vergeet|inte|aldrig|ikke|aldri|nekter"
    # Français, español, português, italiano
    r"|(?:ne\s+|n')?(?:jamais|pas)|ne|n'|sans|interdit|refuse[rz]?|évite[rz]?|hésite[rz]?|oublie[rz]?"
    r"|no|nunca|jam[aá]s|sin|prohibido|evit[ae]r?|dudes|olvides|niégate|rechaza"
    r"|n[ãa]o|nem|sem|proibido|hesite|esque[çc]a|recuse|non|mai|senza|vietato|rifiutat?i?|esitare|dimenticare"
    # Polski, čeština, русский, українська
    r"|(?:nigdy\s+)?nie|nigdy|bez|odmawiaj?|wahaj|zapomnij|nikdy|nesmíš|nesmí|(?:никогда\s+)?не|нельзя|никогда|запрещено|без"
    r"|откажись|отказывайся|забудь|стесняйся|бойся|(?:ніколи\s+)?не|ніколи|заборонено|вагайся"
    # Türkçe, Bahasa, tiếng Việt, عربي, فارسی, עברית, हिन्दी
    r"|asla|sakın|jangan(?:\s+pernah)?|tidak|dilarang|tanpa|lupa|ragu|takut|menolak|(?:tuyệt\s+đối\s+)?(?:không|đừng|chớ)|cấm|quên|ngại|từ\s+chối"
    r"|لا|لن|لم|ألا|ألّا|يمنع|ممنوع|دون|بدون|هرگز|نباید|אל|לא|אסור|בלי|मत|कभी|न|बिना|mat|kabhi|bina"
)
_GAP = (
    r",?\s*under\s+(?:any|no)\s+circumstances?,?|,?\s*in\s+any\s+(?:way|case),?|,?\s*for\s+any\s+reason,?"
    r"|,?\s*no\s+matter\s+(?:what|who\s+asks),?|ever|again|directly|fully|openly|simply|knowingly|accidentally|also|even"
    r"|to|from|into|by|(?:try|tries|attempt|agree|offer|be\s+willing|willing|inclined)\s+to"
    r"|be\s+(?:tricked|persuaded|convinced|talked|forced|made|led|coaxed|pressured)\s+(?:into|to)"
    r"|allowed|supposed|permitted|able|authori[sz]ed|expected|asked"
    r"|ma(?:ke|king)|let(?:ting)?|get(?:ting)?|trick(?:ing)?|persuad(?:e|ing)|convinc(?:e|ing)|allow(?:ing)?|permit(?:ting)?"
    r"|forc(?:e|ing)|talk(?:ing)?|tell(?:ing)?|ask(?:ing)?|caus(?:e|ing)|help(?:ing)?"
    r"|you|anyone|anybody|someone|them|him|it|people|others|yourself|(?:the\s+|an?\s+|any\s+)?(?:users?|models?|assistants?|bots?|agents?|ai|llms?)"
    rf"|{L}+(?:,\s*{L}+){{0,4}},?\s+(?:or|nor|oder|noch|ou|o|ni|nem|of|lub|ani|или|ни|veya|hoặc|atau|أو)|{L}+\s*/"
    r"|dich|dir|sich|zu|jemals|einfach|je|plus|surtout|de|d'|à|a|te|di|om|że|aby|bao\s+giờ|được|boleh|أبدا|أبدًا|أن|أي"
)
NEGATION = (
    rf"{_EDGE}(?:{_NEGATIONS})[\s'\"*_`“«]*\z"
    # Without spaces between words
    r"|(?:不要|不得|不可|不能|不应|不應|不会|不會|切勿|请勿|請勿|勿|禁止|严禁|嚴禁|绝不|絕不|决不|别|別|莫|拒绝|拒絕|防止|避免|忘记|忘了|犹豫|害怕"
    r"|อย่า|ห้าม|ไม่ควร|ไม่|ปฏิเสธ)[^\s，。！？；：、,.!?;:]{0,6}\z"
)
GAP = rf"{_EDGE}(?:{_GAP})[\s'\"*_`“«]*\z"
NEGATED_INSIDE = (
    r"\A\S+\s+(?:\S+\s+){0,6}?(?:niemals|keinesfalls|auf\s+keinen\s+fall|unter\s+keinen\s+umständen|jamais|nooit|onder\s+geen|aldrig"
    r"|nunca|jam[aá]s|nigdy|никогда|ніколи|asla|under\s+no\s+circumstances?)\s"
)
REFUSED_INSIDE = (
    r"refus|verweiger|ablehn|ablehnst|rechaz|niega|niegu|recus|rifiut|отказ|відмов|odm[aó]w|reddet|weiger|nein\b|non\b"
)
NEGATED_AFTER = (
    r"\A[\s」』”\"']{0,2}[ぁ-ん]{0,5}(?:ないで|ないこと|ない(?:よう|ため)|てはいけ|てはなら|べきではな|禁止|ません|せず)"
    r"|\A[\s”\"']{0,2}(?:하|해|를|을|하게)?\s?(?:지\s?(?:마|말|않|못)|면\s?안|서는\s?안|금지)"
    r"|\A\s?(?:mat\b|nahi\b|मत|नहीं|न\s)"
)
NEGATED_LIST = (
    r"\b(?:never|not|don't|doesn't|mustn't|cannot|avoid|forbidden|prohibited|refuse|refuses|decline|disallowed|won't)\b"
    r"|\b(?:nicht|nie|niemals|verboten|jamais|interdit|nunca|prohibido|proibido|mai|vietato|nooit|verboden|nigdy)\b"
    r"|não|никогда|нельзя|不要|禁止|不得|切勿|しない|하지|금지|asla|không|jangan|لا\s|मत"
)
UNTIL = (
    r"[;,]|\b(?:until|unless|but|before|instead|and|bis|aber|sondern|jusqu|mais|sino|hasta|mas|até|ma|fino|tot|maar)\b"
)
"""What ends the reach of a negation in the line before a list."""
ASKED = r"(?:\bwhy\s+(?:do\s+)?not|n't\s+you|\bwhy\s+don't\s+(?:we|you)|\bnot\s+only)\s*\z"
"""A negation that asks for the very thing."""
_PEOPLE = rf"(?:attackers?|adversar(?:y|ies)|hackers?|criminals?|scammers?|spammers?|malicious\s+{L}+|bad\s+actors?|red\s+team{L}*|jailbreakers?)"
_ATTACKS = (
    r"(?:attacks?|injections?|jailbreaks?|exploits?|payloads?|attempts?|techniques?|vulnerabilit(?:y|ies)|threats?|risks?|backdoors?"
    rf"|(?:untrusted|injected|hidden|embedded|poisoned|adversarial)\s+{L}+|(?:user|tool|malicious)\s+(?:prompts?|inputs?|outputs?))"
)
_DEFENCES = (
    r"(?:prevent|stop|keep|protect|defend|detect|block|catch|filter|refuse|reject|resist|flag|guard|mitigate|harden|safeguard|check"
    r"|classify|recogni[sz]e)(?:s|ed|ing|d)?"
)
_LINK = (
    r"(?:to|that|which|who|where|when|such\s+as|like|by|may|might|can|could|will|would|tries|try|tells?|telling|asks?|asking|instructs?|instructing"
    r"|makes?|gets?|causes?|causing|convinces?|tricks?|with|from|against|into|of|and|or)"
)
_PLAIN = r"[^.!?\n:;\"“„«`]"
_TOLD = rf"(?:ask|tell|say|tr[yi]|attempt|want|request|instruct|urge|order|demand|contain|claim|insist|persuad|convinc|push|press){L}*"
_SOMEBODY = (
    r"(?:users?|customers?|visitors?|callers?|people|someone|somebody|anyone|anybody|they|he|she|messages?|prompts?|inputs?|documents?"
    r"|texts?|(?:web\s+)?pages?|e-?mails?|content|websites?|outputs?|results?|comments?|instructions?|requests?)"
)
DESCRIBED = (
    rf"\b(?:{_PEOPLE}|{_ATTACKS})\b{_PLAIN}*?\b{_LINK}(?:\s+[a-z'-]+){{0,5}}\s*\z",
    rf"\b{_DEFENCES}\b{_PLAIN}*?\b(?:from|that|which|to|against|when|if|of)(?:\s+[a-z'-]+){{0,4}}\s*\z",
    (
        rf"\b(?:if|when|whenever|should|unless|in\s+case|because|after|once)\s+(?:(?:an?|the|any|some|your|that)\s+)?(?:[a-z]+\s+){{0,2}}?{_SOMEBODY}"
        rf"\s+(?:[a-z]+\s+){{0,2}}?{_TOLD}(?:\s+(?:you|us|me|it|him|her|them|for|(?:the|an?|your)\s+(?:model|assistant|bot|ai|agent|llm)))?"
        r"(?:\s+(?:to|that|how|about|into|make|get|have|you))*\s*\z"
    ),
    (
        r"\b(?:if|when|whenever|even\s+if)\s+(?:you(?:'re|\s+are)|it\s+is|(?:the|an?)\s+(?:model|assistant|bot|agent|ai)\s+is)\s+(?:ever\s+)?"
        r"(?:asked|told|instructed|requested|pressed|ordered|urged|tricked|persuaded)\s+(?:to|into)\s*\z"
    ),
    r"\b(?:told|asked|advised|taught|ordered|helped|wants?|wanted|tells|asks)\s+(?:me|us|him|her|them|people|students?|children|everyone|everybody)\s+(?:to|how\s+to|not\s+to)\s*\z",
    (
        r"\b(?:what\s+happens\s+(?:if|when)|how\s+(?:do|does|can|could|would|should)|why\s+(?:do|does|did|would|can)|can|could|does|do|did|will|would)"
        r"\s+(?:an?|the|any|some|one|it|your|my|our|i|we|people|most)\s+(?:[a-z]+\s+){0,5}?(?:model|llm|chatbot|assistant|bot|agent|ai|gpt)s?\s+(?:(?:to|into|just|really|sometimes|still)\s+){0,2}\z"
    ),
    # Attackers and attacks by name in other languages
    (
        r"(?:angreifer|angriff|attaquant|attaque|atacante|ataque|attaccant|attacco|attacchi|aanvaller|aanval|angripare|napastni"
        r"|útočn|злоумышленник|атак|зловмисник|saldırgan|saldırı|kẻ\s+tấn\s+công|tấn\s+công|penyerang|serangan|المهاجم|هجوم|مهاجم|מתקיף"
        rf"|हमलावर|हमले|攻击者|攻击|攻擊|注入|越狱|攻撃者|攻撃|インジェクション|공격자|공격|인젝션|ผู้โจมตี|การโจมตี){_PLAIN}*\z"
    ),
    # If a user asks you to, in other languages
    r"\b(?:wenn|falls|sobald)\s+[^.!?\n:,]*(?:bittet|fragt|auffordert|verlangt|versucht|will|möchte)[^.!?\n:]*\z",
    rf"\b(?:si|se|als|jeśli|если|якщо|nếu|jika|kalau)\s+[^.!?\n:,]*(?:demande{L}*|pide{L}*|pid[ae]n?|pede{L}*|peça{L}*|chiede{L}*|vraagt|prosi|poprosi|просит|попросит|yêu\s+cầu|meminta)\s*(?:de|d'|que|à|a|di|om|aby)?\s*\z",
)
FRAMES = (
    rf"\b(?:attack|inject|jailbreak|malicious|adversar|exploit|phish|scam|payload){L}*"
    r"|\b(?:such\s+as|e\.g\.|i\.e\.|for\s+(?:example|instance)|examples?|(?:phrases?|prompts?|things?|wordings?|sentences?|texts?|lines?|messages?|requests?|words|inputs?|tricks?|commands?|orders?|questions?|something|anything)\s+(?:like|such|saying|that\s+says?|containing|as))\b"
    rf"|\b(?:patterns?|regex{L}*|keywords?|detect{L}*|block(?:s|ed|ing|list)|deny\s?list|filter{L}*|flag(?:s|ged)|refus{L}+|reject{L}*|classif{L}*|assert{L}*|test_?cases?|fixtures?|trigger\s+words?|red\s+team{L}*|banned|forbidden|suspicious|poisoned|harmless)\b"
    r"|\b(?:users?|people|someone|somebody|anyone|customers?|visitors?)\s+(?:may|might|could|can|will|would|say|says|ask|asks|write|writes|type|types|try|tries|who|tell|tells|wrote|typed|said)\b"
    r"|\b(?:known|referred)\s+(?:as|to)|\b(?:called|so-called|titled|entitled|translate|translation\s+of|the\s+(?:phrase|phrases|sentence|words?|term|title|expression|string|wording)|means?|what\s+does|what\s+(?:is|happens)|why\s+(?:do|does|did|is|would)|how\s+(?:do|does|would|should|can)\s+(?:i|we|one|you|it|the|a)|explain\s+(?:why|how|what)|heard\s+of|quot(?:e|es|ed|ation|ing)|cites?|article|headline|chapter|paper|lesson|quiz)\b"
    rf"|\b(?:angriff{L}*|beispiel{L}*|z\.\s?b\.|etwa|sätze\s+wie|phrasen|schadtext{L}*|eingeschleust{L}*|bedeutet|übersetz{L}*|erkenn{L}*|blockier{L}*)"
    rf"|\b(?:attaque{L}*|exemples?|par\s+exemple|phrases?\s+comme|des\s+phrases|malveillant{L}*|signifie|tradui{L}*|détect{L}*|bloqu{L}*)"
    rf"|\b(?:ataques?|ejemplos?|por\s+ejemplo|frases?\s+(?:como|del)|malicios{L}*|significa|traduc{L}*|exemplos?|por\s+exemplo|tipo|traduz{L}*)"
    rf"|\b(?:attacc{L}+|esemp{L}+|ad\s+esempio|frasi\s+come|rileva{L}*|aanval{L}*|voorbeeld{L}*|bijvoorbeeld|zinnen\s+als|betekent|vertaal)"
    rf"|\b(?:przykład{L}*|atak{L}*|zdani{L}+|np\.|příklad{L}*|útok{L}*|exempel|angrepp|eksempel|angreb)"
    r"|например|атак|пример|инъекци|фраз|означает|переведи|наприклад|приклад|örne[kğ]|saldırı|mesela|cümle|ne\s+demek"
    r"|ví\s+dụ|tấn\s+công|chẳng\s+hạn|câu\s+như|nghĩa\s+là|contoh|serangan|misalnya|kalimat|مثال|أمثلة|مثل|هجوم|هجمات|حقن|عبارة|عبارات|حمله|דוגמ|התקפ|משפט"
    r"|例如|比如|诸如|攻击|攻擊|注入|越狱|示例|例子|样本|检测|拦截|黑名单|什么意思|翻译|例えば|攻撃|インジェクション|などの|といった|という文|例：|예를\s?들|공격|인젝션|예시|같은\s?(?:문장|문구|말)|라는\s?(?:문장|문구|말)|उदाहरण|हमल|जैसे|वाक्य|ตัวอย่าง|โจมตี|เช่น|ประโยค"
)
_OBEY = (
    rf"follow|obey|execute|perform|carry\s+out|comply\s+with|act\s+(?:on|upon|according)|do\s+(?:as|what|exactly|this|the)|apply|heed|adhere|complete|fulfil{L}*"
    rf"|befolg{L}*|führe?|mach\s+was|gehorche?|exécute{L}*|sui(?:s|vez)|obé{L}+|applique{L}*|haz|ejecut{L}*|sigu?[ea]{L}*|obede{L}+|cumpl{L}+|faça|execut{L}+|esegui{L}*|segui{L}*|obbedisci"
    rf"|voer|volg|doe\s+wat|wykonaj|zrób|postępuj|выполн{L}+|сделай|следуй|виконай|uygula|yap|thực\s+hiện|làm\s+theo|laksanakan|ikuti|lakukan|نفذ|اتبع"
)
OBEY_BEFORE = rf"{_EDGE}(?:{_OBEY})(?:[^a-z\x{{c0}}-\x{{1fff}}.!?\n][^.!?\n]*)?\z|(?:执行|照做|遵循|按照|実行|従って|従い|실행|따르|따라)[^。！？\n]*\z"
"""In what stands before a quotation, its last sentence."""
OBEY_AFTER = (
    rf"\A[\s\pP]{{0,4}}(?:{L}+\s+){{0,4}}?(?:(?:{_OBEY})|do|now|comply|sofort|jetzt|maintenant|ahora|agora|adesso|сейчас)\s+(?:it|that|so|this|these|now|them|at\s+once|immediately|accordingly|das|dies|es|eso|esto|isso|isto|dat|это|then)\b"
    r"|\A[\s\pP]{0,4}(?:照做|执行|立即|現在|従って|実行して|그대로|따르)"
)
