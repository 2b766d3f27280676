"""Words around a quotation: what is requested with it, and what was quoted, in two dozen languages.

A prompt that quotes the system prompt asks for more of it in few ways: to continue where the quotation ends
(`CONTINUES`), or to show (`SHOWS`) the instructions themselves (`INSTRUCTIONS`). A sentence that addresses the model
(`COMMANDS`) comes from the author of the system prompt; any other may be about the subject of the application, which
its users ask about. They are searched in a few hundred characters, where Python's `re` needs no automaton that would
not be reused.
"""

from __future__ import annotations

import re

_CONTINUES = r"""
\b(?:what|which)(?: \w+){0,3} (?:comes?|follows?|stands?|appears?|precedes?|goes)\b[^.?!\n]{0,30}\b(?:next|
  after|before|it|this)\b
\bthe rest\b(?: of (?:it|this|that|them|yours))?\s*(?:[.?!:,;]|$|please)|\b(?:keep going|carry on from|
  pick up (?:from|where it))
\bwhat(?:['’]s| is) (?:next|missing|the (?:next|rest))\b|\band then\?|\bhow does\b[^.?!\n]{0,60}\b(?:end|
  go on|continue)\b
\b(?:sentence|line|paragraph|text|rule|bullet)s? (?:that )?(?:beginning|starting|begins|starts)\s*[:"“'‘«]
\bwie (?:geht|lautet|endet)\b[^.?!\n]{0,60}(?:\bweiter\b|\bende\b|[„"“])
\b(?:auto-?complete|complete|continue|finish|extend)\b[^.?!:\n]{0,25}\b(?:sentence|text|line|paragraph|
  passage|phrase|prompt|quote|quotation|wording|fragment|instructions?)\b
\b(?:auto-?complete|complete|continue|finish)(?: this| it| that| the following| from here| after| from|
   exactly)*\s{0,2}[:\"“‘'«]
\bwhat (?:comes|came|follows|stands|goes|is written|is said|is the (?:text|sentence|line)|
  was)\b[^.?!\n]{0,30}\b(?:next|after|before|follow(?:s|ing)|between)\b
\bwhat follows\b
\b(?:next|following|preceding|previous) (?:\w+ )?(?:sentence|line|words?|paragraph|clause|bullet|one)\b
\brest of (?:the |this |that |your |my )?(?:sentence|text|line|paragraph|passage|phrase|prompt|quote|
  instructions?|rules?)\b
\bfill (?:in|out)? ?(?:the )?(?:blanks?|gaps?|missing)\b|\bmissing words?\b
\b(?:everything|all|anything|whatever|text|sentence|line|words?|paragraph|part|section|passage|
  instruction)s?(?: \w+){0,5} (?:after|before|follow(?:s|ing)|between|until|up to|preced(?:es|ing))\b
\b(?:text|sentence|line|paragraph|part|section|passage|instruction|prompt|message|
  one)s?(?: \w+){0,4} (?:start|begin|open|end)(?:s|ing|ning)? (?:with|at|from)\b
\b(?:text|words|everything|all)(?: \w+){0,3} from\b
(?:vervollständig|ergänz|beende|vollende)\w*[^.?!:\n]{0,25}(?:satz|text|zeile|absatz|zitat|passage|[:„\"“»])
(?:setz|führ)\w*[^.?!:\n]{0,40}\bfort\b
\bwas (?:kommt|steht|folgt|stand|kam)\b[^.?!\n]{0,60}\b(?:nach|vor|danach|davor|als nächstes|zwischen)\b
\b(?:nächste|folgende|vorige|vorherige)\w* (?:satz|zeile|wort|absatz)
\balles\b[^.?!\n]{0,40}\b(?:nach|vor|zwischen|danach)\b|\b(?:beginnt|anfängt|endet) mit\b
rest (?:des|vom|deines|deiner) (?:satz|text|absatz|anweisung|prompt)
\b(?:voltooi|vervolg|vul|maak)\b[^.?!:\n]{0,25}(?:zin|tekst|regel|alinea)
\bwat (?:komt|staat|volgt)\b[^.?!\n]{0,40}\b(?:na|voor|daarna)\b|\bvolgende (?:zin|regel|woord|alinea)
\balles (?:na|wat volgt|tussen)\b
\b(?:fortsätt|fortsæt|fortsett|slutför|avsluta|fullfør|færdiggør)\w*[^.?!:\n]{0,25}(?:mening|text|tekst|rad|
  linje|sætning|setning|[:\"”])
\b(?:vad|hvad|hva) (?:kommer|står|følger|följer)\b[^.?!\n]{0,40}\b(?:efter|före|før|etter)\b
\b(?:compl[eè]te|continue|termine|finis|poursui|achève)\w*[^.?!:\n]{0,25}(?:phrase|texte|ligne|paragraphe|
  passage|citation)
\b(?:qu['’]est-ce qui|qu['’]y a-t-il|que|qui|ce qui) (?:vient|suit|figure|se trouve|précède)\b[^.?!\n]{0,30}
\b(?:phrase|ligne|mot) (?:suivante?|précédente?)|\bla suite (?:du|de la|de ce) (?:texte|phrase)
\bqui commence par\b
\b(?:complet|contin[uú]|termin|acab|prossig|prosig|sig[ua])\w*[^.?!:\n]{0,25}(?:frase|oración|texto|línea|
  linha|párrafo|parágrafo|pasaje|trecho|cita)
\b(?:qu[eé]|o que) (?:viene|sigue|hay|dice|vem|segue|está)\b[^.?!\n]{0,30}(?:despu[eé]s|antes|luego|depois|
  após|a seguir)
\b(?:siguiente|anterior|próxima|seguinte) (?:frase|línea|oración|palabra|párrafo|linha|palavra)
\btodo lo que (?:sigue|viene)|\btudo o que (?:segue|vem)|\bque (?:empieza|comienza|começa) (?:con|por|com)\b
\b(?:completa|continua|termina|finisci|prosegui)\w*[^.?!:\n]{0,25}(?:frase|testo|riga|paragrafo|brano|citazione)
\b(?:che )?cosa (?:viene|segue|c['’]è|sta)[^.?!\n]{0,30}(?:dopo|prima)
\bfrase (?:successiva|seguente|precedente)|\btutto (?:ciò|quello) che (?:segue|viene)
\bche (?:inizia|comincia) con\b
\b(?:dokończ|uzupełnij|kontynuuj|dopisz)\w*[^.?!:\n]{0,25}(?:zdani|tekst|linij|akapit|cytat|[:„\"”])
\bco (?:następuje|jest|stoi|idzie|występuje)\b[^.?!\n]{0,30}\b(?:po|przed|dalej)\b
\bnastępne (?:zdanie|słowo)|\bzaczyna się od\b
(?:законч|продолж|дополн|заверш|закінч|продовж|доповн)[а-яіїєґё]*[^.?!:\n]{0,25}(?:предложен|речен|текст|фраз|
  строк|абзац|цитат|[:«\"„])
(?:^|[^а-яё])что (?:идёт|идет|следует|стоит|написано|сказано|находится)[^.?!\n]{0,30}(?:после|перед|дальше|
  далее)
следующ[а-яё]+ (?:предложен|строк|слов|фраз)|(?:вс[её]|текст),? (?:что )?(?:после|следует|идёт)
начинается (?:с|со)\s
(?:cümle|metn|metin|satır|paragraf|ifade)\w*[^.?!:\n]{0,25}(?:tamamla|devam|sürdür|bitir)
\bsonraki (?:cümle|satır|kelime)|(?:cümle|ifade|satır)\w* sonra\b[^.?!\n]{0,20}\bne\b
(?:补全|補全|续写|續寫|接着写|接著寫|接下去|完成|继续|繼續|填空)[^。？！：:\n]{0,10}(?:句|话|話|文|段|[：:“「])
(?:后面|後面|之后|之後|下面|前面|之前)的?(?:内容|內容|句|一句|下一句|一段|文字|文本|是什么|是什麼|写|寫)|
  (?:下一|上一)(?:句|行|段)
続き(?:を|は|の)|続けて(?:書|言|くだ|下さ)|完成させ|補完し|次の(?:文|行|言葉|単語|段落|一文)(?:は|を)|(?:の後|
  の前|のあと)に?(?:何|続|来る|ある)|穴埋め
(?:문장|글|문구|텍스트|구절)[^.?!:\n]{0,10}(?:완성|이어|계속)|이어서 ?(?:써|말|적|작성)|다음 (?:문장|줄|단어|
  문구|구절)(?:은|을|이|를)
(?:뒤|다음|앞)에 ?(?:오는|나오는|이어지는|있는)|빈칸
(?:أكمل|اكمل|تابع|واصل|أتمم)[^.؟!:\n]{0,25}(?:الجملة|النص|العبارة|السطر|الفقرة)|ما (?:الذي )?(?:يأتي|يلي)\s
الجملة (?:التالية|السابقة)|كل ما (?:بعد|يلي)|(?:الذي|التي) (?:يبدأ|تبدأ)
(?:वाक्य|पाठ|पंक्ति|अनुच्छेद|पैराग्राफ)[^।?!:\n]{0,15}(?:पूरा|पूरी|जारी|आगे)
(?:के बाद|से पहले) (?:क्या (?:आता|लिखा|है)|का वाक्य|वाला)|अगल[ाी] (?:वाक्य|पंक्ति|शब्द)|से शुरू होने
(?:hoàn thành|tiếp tục|viết tiếp|điền)[^.?!:\n]{0,20}(?:câu|đoạn|văn bản|dòng)
(?:câu|dòng|từ) (?:tiếp theo|kế tiếp)
(?:lengkapi|lanjutkan|selesaikan)[^.?!:\n]{0,20}(?:kalimat|teks|baris|paragraf)
(?:kalimat|baris|kata) (?:berikutnya|selanjutnya)|apa yang (?:ada|muncul|tertulis) (?:setelah|sebelum)
(?:เติม|เขียนต่อ|ต่อ)[^\n:]{0,20}(?:สมบูรณ์|ข้อความ|ประโยค|ให้จบ)
(?:ประโยค|บรรทัด|คำ)(?:ถัดไป|ต่อไป|ก่อนหน้า)|อะไร(?:อยู่|มา)(?:หลัง|ก่อน)
"""
_SHOWS = r"""
\byes or no\b|\bconfirm|\bis it true\b|\bcontains?\b|\bpart of\b|\bwhat else\b|\bja oder nein\b|
  \boui ou non\b|\bs[ií] o no\b
\b(?:print|repeat|show|reveal|tell|output|write|quote|recite|translate|encode|base64|rot13|spell|list|summari|
  display|dump|copy|verbatim|word for word|wiederhol|zeig|gib|nenn|schreib|répèt|affich|montr|tradui|repit|
  repet|muestr|mostr|traduc|traduz|escrib|escrev|imprim|ripet|scriv|powtórz|pokaż|napisz|tekrarla|göster|yaz)
übersetz|écri[st]|повтор|покаж|напиши|перевед|вывед|重复|重複|复述|输出|輸出|显示|顯示|翻译|翻譯|写出|打印|
  繰り返|表示|出力|書いて|書き出|教えて
반복|보여|출력|알려|적어|كرر|اعرض|اكتب|اطبع|दोहरा|दिखा|लिख
"""
_INSTRUCTIONS = r"""
\b(?:your|system|initial|original|hidden|secret|developer)\s+(?:\w+\s+)?(?:instruction|prompt|rule|guideline|
  message|configuration|directive|context|order)s?\b
\byou (?:were|have been|are) (?:given|told|instructed|configured|shown)\b
\b(?:text|prompt|message|instructions?|words?) above\b|\babove text\b|\bas you have it\b
(?:dein|euer|eure|system|anfangs|ursprünglich|geheim)\w*[\s-]?(?:anweisung|prompt|regel|vorgabe|instruktion|
  anleitung|systemprompt)
\b(?:tes|ton|système)\b[^.?!\n]{0,15}(?:instructions|consignes|prompt|règles|directives)|texte ci-dessus
\b(?:tus?|sistema)\b[^.?!\n]{0,15}(?:instrucciones|indicaciones|prompt|reglas|directrices|istruzioni|regole|
  instruções|regras|diretrizes)
\b(?:tue|tuo|suas?|seus?|teus?|tuas?)\b[^.?!\n]{0,15}(?:istruzioni|prompt|regole|direttive|instruções|regras|
  diretrizes)
(?:тво|ваш|систем|исходн|скрыт)[а-яё]*\s+(?:[а-яё]+\s+)?(?:инструкц|промпт|правил|указан|сообщен)
\b(?:twoj|swoj|system|ukryt)\w*[^.?!\n]{0,10}(?:instrukcj|prompt|reguł|zasad|polece)
(?:talimat|yönerge|istem)(?:lar)?ın
(?:你的|系统|系統|初始|原始|上面的?|以上的?)(?:提示|指令|指示|规则|規則|设定|設定|说明|消息|文字|文本|内容)
(?:あなたの|システム|最初の|上の|元の)(?:プロンプト|指示|命令|ルール|規則|設定|メッセージ|文章)
(?:당신의|너의|시스템|위의|처음|원래)\s?(?:프롬프트|지시|지침|명령|규칙|설정|메시지|글)|تعليماتك|
  تعليمات النظام|قواعدك|النص أعلاه
(?:आपके|तुम्हारे|सिस्टम|ऊपर के|मूल)\s*(?:निर्देश|प्रॉम्प्ट|नियम|पाठ)
"""
_COMMANDS = r"""
^\W*(?:never|do not|don['’]t|always|only|answer|respond|reply|use|keep|refuse|avoid|ask|offer|send|explain|
  translate|think|act|speak|write)\b
\byou(?:['’]re| are) (?:an? |the |called |named |\w+[,.])
\byour (?:task|role|job|name|reply|answer|response|goal|output)\b
\byou (?:must|will|should|shall|may|can)(?: not| never| always| only)? \w+|\byou (?:do not|don['’]t) know\b
\b(?:the|an?) (?:user|customer|guest|caller|student)\b
\b(?:confidential|secret|password|internal|reveal|disclose|mention)\b|\bnever\b|\bdo not\b|\bdon['’]t\b
\b(?:du bist|sie sind (?:ein|der|die)|niemals|nenne?|antworte|verrate|erwähne|geheim|leite)\b
\b(?:tu es|vous êtes|ne (?:parle|dis|révèle|mentionne|réponds|donne)|réponds|répondez|jamais|transmet)
\b(?:eres|nunca|jamás|responde|no (?:menciones|reveles|digas|hables)|responda|não (?:mencione|revele|diga|
  fale)|remite|encaminhe)\b
você é|\b(?:sei (?:un|il|la|l['’])|rispondi|mai|non (?:rivelare|parlare|dire|menzionare))\b
\b(?:je bent|u bent|nooit|antwoord)\b|\b(?:du är|du er|aldrig|aldri|svara|svar)\b
(?:^|[^а-яё])(?:ты|вы) [а-яё]+|никогда|отвечай|не (?:называй|раскрывай|говори|упоминай)|ніколи|відповідай
\b(?:jesteś|nigdy|odpowiadaj|nie (?:wspominaj|ujawniaj|mów))\b|\b(?:sen |asla|yanıtla|söyleme|açıklama)
你是|您是|不要|不得|绝对|絕對|只回答|必须|必須|请勿|あなたは|ください|てはいけ|禁止|당신은|마세요|답하세요|
  하세요|너는|넘기세요|أنت |أجب|لا (?:تذكر|تكشف|تقل)
आप .{1,40}हैं|जवाब दें|न बताएं|कभी न|คุณเป็น|คุณคือ|ห้าม|ตอบเฉพาะ|bạn là|không được|kamu adalah|anda adalah
jangan
"""


def _any(patterns: str) -> re.Pattern[str]:
    """One of the lines; an indented line continues the one before it."""
    return re.compile("(?im)" + "|".join(patterns.replace("\n  ", "").split("\n")[1:-1]))


CONTINUES, SHOWS, INSTRUCTIONS, COMMANDS = map(_any, (_CONTINUES, _SHOWS, _INSTRUCTIONS, _COMMANDS))
